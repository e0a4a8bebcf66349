"""Makes the device known to PyTorch: its name, its guard, and the kernels behind the tables.

PyTorch may do this whenever it is imported, so that little is loaded before a tensor is made.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, Final

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from netcl_plugin_torch import device, files
from netcl_plugin_torch.guard import Guard, raising

#: The modules with rows; the first has the kernels that PyTorch asks for tensors.
TABLES: Final = (
    "making", "views", "placing", "elements", "reductions", "indexing", "layers", "windows",
    "recurrent", "attention", "sampling", "foreach", "optimizers", "autocast",
)  # fmt: skip
_KERNELS: Final = (
    "empty.memory_format", "empty_strided", "_copy_from", "_copy_from_and_resize",
    "_efficientzerotensor", "tril_indices", "triu_indices",
)  # fmt: skip

#: Attributes of a tensor on the device, which belong to its memory.
_OURS: Final = {"raw", "record", "place", "_is_param"}
_HELD: Final = (
    "A graph may hold it: move the model before its first forward pass, and before "
    "torch.nn.utils.weight_norm, in whose place torch.nn.utils.parametrizations.weight_norm moves."
)


def register() -> None:
    """Let `torch.device("netcl")` be netcl's."""
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", "netcl"):
        text = f"PyTorch has one place for a device of others, and {name!r} has taken it"
        raise ImportError(f"netcl_torch: {text}. Use another process")
    if torch.cuda.is_available():
        text = "PyTorch asks one accelerator for its streams: backward passes of CUDA do not run"
        warnings.warn(f"netcl_torch: {text} in this process from now on", stacklevel=2)
    _setup_privateuseone_for_python_backend("netcl", device, device_guard=Guard())
    run: Any = raising(torch.autograd._engine_run_backward)  # type: ignore[attr-defined]
    torch.autograd._engine_run_backward = run  # type: ignore[attr-defined]
    torch.autograd.graph._engine_run_backward = run
    # so that `model.to("netcl")` keeps tied weights tied, and optimizers their parameters
    torch.__future__.set_swap_module_params_on_conversion(True)
    torch.utils.swap_tensors = keeping(torch.utils.swap_tensors)  # type: ignore[assignment]
    for kernel in _KERNELS:
        library().impl(kernel, loading(kernel), "PrivateUse1")
    device.prepare = load
    files.register()


def keeping(swap: Callable[..., None]) -> Callable[..., None]:
    """PyTorch's swap of two tensors, in which a parameter keeps its hooks and its own attributes.

    It gives all attributes away, such as the `no_weight_decay` that optimizers are told by.
    """

    @wraps(swap)
    def run(t1: Any, t2: Any) -> None:
        kept = dict(t1.__dict__) if isinstance(t1, torch.nn.Parameter) else {}
        try:
            swap(t1, t2)
        except RuntimeError as error:
            raise RuntimeError(f"{error} {_HELD}") from error
        for name in kept.keys() - t1.__dict__.keys() - _OURS:
            setattr(t1, name, kept[name])
        for hooks in ("_backward_hooks", "_post_accumulate_grad_hooks"):
            if kept_hooks := getattr(t1, hooks):
                setattr(t1, hooks, kept_hooks)  # which tells them to the new memory's autograd

    return run


@cache
def library() -> Any:
    """What holds PyTorch's entries: they live as long as it does."""
    return torch.library.Library("aten", "IMPL")


@cache
def load() -> dict[str, Callable[..., Any]]:
    """The kernels that make tensors, once all rows are entered."""
    modules = [importlib.import_module(f"netcl_plugin_torch.{name}") for name in TABLES]
    for module in modules:
        if hasattr(module, "register"):
            module.register(library())
    kernels: dict[str, Callable[..., Any]] = modules[0].KERNELS
    return kernels


def loading(kernel: str) -> Callable[..., Any]:
    """A kernel that loads the tables at its first call."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return load()[kernel](*args, **kwargs)

    return run
