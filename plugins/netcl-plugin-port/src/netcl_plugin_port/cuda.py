"""The namespace `netcl_core.cuda`: PyTorch's questions about GPUs, answered for OpenCL's.

The default device counts as the first GPU if it is one; others follow in their order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import netcl_core as nc
from netcl_core import Device
from netcl_plugin_port.absent import absence

__all__ = [
    "current_device",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "synchronize",
]


def _gpus() -> Sequence[Device]:
    return [each for each in nc.devices() if each.kind == "gpu"]


def is_available() -> bool:
    """Whether the default device is a GPU, so that 'cuda' and 'cpu' both lead to it.

    >>> nc.cuda.is_available() == (nc.default_device().kind == "gpu")
    True
    """
    return nc.default_device().kind == "gpu"


def is_initialized() -> bool:
    """Whether there is a GPU in use."""
    return is_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every device stores bfloat16, and computes in float32."""
    return including_emulation


def device_count() -> int:
    """How many GPUs there are; 0 where the default device is none."""
    return len(_gpus()) if is_available() else 0


def current_device() -> int:
    """The number of the default device; raises DeviceError where it is no GPU."""
    return _gpus().index(_of(None))


def _of(device: Any) -> Device:
    return (
        nc.get_device("cuda", device)
        if isinstance(device, int)
        else nc.get_device(device or "cuda")
    )


def set_device(device: Any) -> None:
    """Make a GPU the default device: `nc.use_device`."""
    nc.use_device(_of(device))


def device(device: Any) -> Any:
    """A context with another default device: `with torch.cuda.device(1):`."""
    return nc.use_device(_of(device))


def get_device_name(device: Any = None) -> str:
    """A device's name."""
    return _of(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The version of OpenCL C that a device has, where PyTorch tells CUDA's."""
    return _of(device).opencl_c


class _Properties:
    """What is known of a device, under PyTorch's names."""

    def __init__(self, device: Device) -> None:
        self.name = device.name
        self.major, self.minor = device.opencl_c
        self.multi_processor_count = device.compute_units
        self.total_memory = _memory(device)


def get_device_properties(device: Any = None) -> Any:
    """Name, memory and compute units of a device."""
    return _Properties(_of(device))


def _memory(device: Device) -> int:
    return int(device.cl_device.global_mem_size) if device.cl_device is not None else 0


def synchronize(device: Any = None) -> None:
    """Wait until a device has done all that it was given."""
    queue = _of(device).queue
    if queue is not None:
        queue.finish()


def manual_seed(seed: int) -> None:
    """`nc.manual_seed`: one seed is for all devices."""
    nc.manual_seed(seed)


manual_seed_all = manual_seed
seed = seed_all = nc.default_generator.seed
initial_seed = nc.default_generator.initial_seed


def get_rng_state(device: Any = "cuda") -> Any:
    """`nc.get_rng_state`: one state is for all devices."""
    return nc.default_generator.get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """`nc.set_rng_state`."""
    nc.default_generator.set_state(new_state)


def _stats(device: Any) -> dict[str, int]:
    queried = _of(device)
    return (
        queried.memory_stats()
        if queried.has_kernels
        else dict.fromkeys(("allocated", "peak", "reserved"), 0)
    )


def memory_allocated(device: Any = None) -> int:
    """Bytes of the tensors on a device."""
    return _stats(device)["allocated"]


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver, free ones that are kept among them."""
    return _stats(device)["reserved"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of tensors since the start, or since `reset_peak_memory_stats`."""
    return _stats(device)["peak"]


max_memory_reserved = memory_reserved


def memory_stats(device: Any = None) -> dict[str, int]:
    """The same numbers by PyTorch's keys."""
    stats = _stats(device)
    return {
        "allocated_bytes.all.current": stats["allocated"],
        "allocated_bytes.all.peak": stats["peak"],
        "reserved_bytes.all.current": stats["reserved"],
    }


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of a device that are free, as far as this process knows, and all of them."""
    every = _memory(_of(device))
    return every - memory_reserved(device), every


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start `max_memory_allocated` anew."""
    with contextlib.suppress(nc.errors.DeviceError):  # the NumPy path counts nothing
        _of(device).reset_peak_memory_stats()


reset_max_memory_allocated = reset_peak_memory_stats


def empty_cache() -> None:
    """Taken; freed buffers are kept for tensors to come."""


ipc_collect = init = empty_cache


def __getattr__(name: str) -> Any:
    if name == "amp" or name.endswith("Tensor"):  # torch.cuda.FloatTensor
        return getattr(nc, name)
    raise absence("cuda", name, __all__)
