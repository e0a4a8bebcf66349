"""Who takes part: netcl in its three ways, and the libraries that are used where installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module, metadata
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, final

from netcl_core import Device
from netcl_core.runtime.stream import stream_of

#: Waits until what a call has returned is there.
Wait: TypeAlias = Callable[[Any], object]


@final
@dataclass(frozen=True)
class Peer:
    """One that takes part.

    Attributes:
        ours: Whether it is netcl.
        absence: Why it cannot be used for a device; empty: it can.
        waiting: What waits for its calls.
    """

    ours: bool
    absence: Callable[[Device], str]
    waiting: Callable[[Device], Wait]


def library(name: str) -> Any:
    """A peer's module, which nothing else imports: it is a matter of seconds."""
    module = import_module(name)
    if name == "jax":  # on GPUs float32 products are of TF32 otherwise, and off by 1e-3
        module.config.update("jax_default_matmul_precision", "highest")
    elif name == "torch":  # likewise convolutions
        module.backends.cudnn.allow_tf32 = False
    return module


def torch_ops() -> Any:
    """PyTorch's functions, those of `torch.nn.functional` and of `torch` in one namespace.

    They stand in it: what looked them up when they are called would break a compiled graph.
    """
    torch = library("torch")
    return SimpleNamespace(**{**vars(torch), **vars(torch.nn.functional)})


def torch_compiled(function: Callable[..., Any]) -> Any:
    """A function compiled by PyTorch; what was compiled before is forgotten.

    PyTorch compiles a line of code for eight situations, then runs it eagerly: cases share lines.
    """
    torch = library("torch")
    torch.compiler.reset()
    return torch.compile(function, dynamic=False)


def torch_place(device: Device) -> str:
    """PyTorch's name of the device."""
    return "cuda" if device.kind == "gpu" else "cpu"


def _missing(module: str, device: Device) -> str:
    return "" if importlib.util.find_spec(module) else "not installed"


def _no_torch(device: Device) -> str:
    if missing := _missing("torch", device):
        return missing
    cuda = device.kind != "gpu" or library("torch").cuda.is_available()
    return "" if cuda else "without CUDA"


def _no_cuda(device: Device) -> str:
    return _no_torch(device) or ("" if device.kind == "gpu" else "on CUDA only")


def _no_jax(device: Device) -> str:
    if missing := _missing("jax", device):
        return missing
    jax = library("jax")
    if device.kind != "gpu":
        jax.config.update("jax_platforms", "cpu")
    backend = jax.default_backend()
    return "" if backend == device.kind else f"its default device is of the kind {backend}"


def _no_tinygrad(device: Device) -> str:
    if missing := _missing("tinygrad", device):
        return missing
    default = str(library("tinygrad").Device.DEFAULT)
    on_cpu = default.split(":")[0] in {"CPU", "LLVM", "CLANG"}
    return "" if on_cpu == (device.kind == "cpu") else f"its default device is {default}"


def _no_numpy(device: Device) -> str:
    return "" if device.kind == "cpu" else "on CPUs only"


def _present(device: Device) -> str:
    return ""


def _finish(device: Device) -> Wait:
    stream = stream_of(device)
    return lambda result: stream.finish()


def _synchronize(device: Device) -> Wait:
    if device.kind != "gpu":
        return lambda result: None
    synchronize = library("torch").cuda.synchronize
    return lambda result: synchronize()


def _block(device: Device) -> Wait:
    return library("jax").block_until_ready  # type: ignore[no-any-return]


def _realized(device: Device) -> Wait:
    tinygrad = library("tinygrad")
    return lambda result: tinygrad.Device[tinygrad.Device.DEFAULT].synchronize()


def _at_once(device: Device) -> Wait:
    return lambda result: None


#: All of them by name, in the order in which they are shown.
PEERS: Final[Mapping[str, Peer]] = {
    "netcl": Peer(True, _present, _finish),
    "netcl-compiled": Peer(True, _present, _finish),
    "netcl-replay": Peer(True, _present, _finish),
    "torch": Peer(False, _no_torch, _synchronize),
    "torch-compile": Peer(False, _no_torch, _synchronize),
    "torch-graph": Peer(False, _no_cuda, _synchronize),
    "jax": Peer(False, _no_jax, _block),
    "tinygrad": Peer(False, _no_tinygrad, _realized),
    "numpy": Peer(False, _no_numpy, _at_once),
}
#: Peers that are called as their packages are.
_DISTRIBUTIONS: Final = ("torch", "jax", "tinygrad", "numpy")
_OURS: Final = ("netcl-core", "pyopencl")


def versions(absent: Mapping[str, str]) -> dict[str, str]:
    """Package -> version of ours and of the peers that are not absent."""
    others = (name for name, why in absent.items() if not why and name in _DISTRIBUTIONS)
    return {name: metadata.version(name) for name in (*_OURS, *others)}


def absences(device: Device, peers: Mapping[str, Peer] = PEERS) -> dict[str, str]:
    """Peer -> why it cannot be used for this device; empty: it can."""
    asked: dict[str, Callable[[], str]] = {
        name: partial(peer.absence, device) for name, peer in peers.items()
    }
    return {name: _answer(ask) for name, ask in asked.items()}


def _answer(ask: Callable[[], str]) -> str:
    """A library that cannot even be imported is as good as absent."""
    try:
        return ask()
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
