"""`torch.netcl`: what PyTorch and its users ask of a device."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import torch

import netcl_core as nc

#: Ops that the host has computed, with how often.
FALLBACKS: Final[Counter[str]] = Counter()
#: Loads the tables of ops, which the first tensor does as well.
prepare: Callable[[], Any] = dict
_seed = 0


def is_available() -> bool:
    """True: without an OpenCL device netcl computes by NumPy."""
    return True


def is_initialized() -> bool:
    """True once netcl_torch is imported."""
    return True


def init() -> None:
    """Nothing is left to do."""


def _is_in_bad_fork() -> bool:
    return False


def device_count() -> int:
    """1: the device that `nc.use_device` or NETCL_DEVICE says."""
    return 1


def current_device() -> int:
    """0."""
    return 0


def set_device(device: Any) -> None:
    """Taken for `netcl:0`, the one device; `nc.use_device` says which OpenCL device that is."""
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0):
        raise RuntimeError(f"netcl has one device in a process, 'netcl:0', and no {index}")


class device(contextlib.nullcontext[None]):  # noqa: N801 - PyTorch's name
    """`with torch.netcl.device(0):`, for the one device there is."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        set_device(device)


def synchronize(device: Any = None) -> None:
    """Wait until the device has done all that it was given."""
    queue = nc.default_device().queue
    if queue is not None:
        queue.finish()


def get_device_name(device: Any = None) -> str:
    """The name of the OpenCL device."""
    return nc.default_device().name


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What `torch.autocast("netcl", dtype=...)` takes."""
    prepare()
    return [torch.float16, torch.bfloat16]


# -- memory -------------------------------------------------------------------------------------


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes of the tensors, the most there were, and bytes taken from the driver.

    The keys are those of `torch.cuda.memory_stats`; on the NumPy path all are 0.
    """
    chosen = nc.default_device()
    names = ("allocated", "peak", "reserved")
    stats = chosen.memory_stats() if chosen.has_kernels else dict.fromkeys(names, 0)
    return {
        "allocated_bytes.all.current": stats["allocated"],
        "allocated_bytes.all.peak": stats["peak"],
        "reserved_bytes.all.current": stats["reserved"],
    }


def memory_allocated(device: Any = None) -> int:
    """Bytes of the tensors."""
    return memory_stats()["allocated_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of tensors since the start, or since `reset_peak_memory_stats`."""
    return memory_stats()["allocated_bytes.all.peak"]


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver."""
    return memory_stats()["reserved_bytes.all.current"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start `max_memory_allocated` anew."""
    with contextlib.suppress(nc.errors.DeviceError):  # the NumPy path counts nothing
        nc.default_device().reset_peak_memory_stats()


def empty_cache() -> None:
    """Taken; freed buffers are kept for tensors to come."""


# -- random numbers --------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """`nc.manual_seed`; `torch.manual_seed` does it as well."""
    global _seed
    _seed = int(seed) % (1 << 63)
    nc.manual_seed(_seed)


manual_seed_all = manual_seed


def initial_seed() -> int:
    """The seed that was set last."""
    return _seed


def seed() -> None:
    """Another seed."""
    manual_seed(torch.randint(1 << 62, ()).item())  # type: ignore[arg-type]


seed_all = seed


def get_rng_state(device: Any = "netcl") -> torch.Tensor:
    """All that the next random numbers depend on."""
    return torch.from_numpy(nc.get_rng_state().to_host().copy())


def set_rng_state(new_state: torch.Tensor, device: Any = "netcl") -> None:
    """Go on with the random numbers from where `get_rng_state` was called."""
    nc.set_rng_state(nc.Tensor.from_host(new_state.cpu().numpy()))


# -- ops by the host -----------------------------------------------------------------------------


def fallbacks() -> dict[str, int]:
    """How often the host computed which op, since the start or the last `reset_fallbacks`."""
    return dict(FALLBACKS)


def reset_fallbacks() -> None:
    """Count from 0, and warn anew."""
    FALLBACKS.clear()
