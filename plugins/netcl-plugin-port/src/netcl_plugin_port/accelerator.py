"""The namespace `netcl_core.accelerator`: PyTorch's questions about whatever accelerates."""

from __future__ import annotations

from typing import Any

import netcl_core as nc
from netcl_plugin_port import cuda
from netcl_plugin_port.absent import absence
from netcl_plugin_port.cuda import (
    device_count,
    empty_cache,
    is_available,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_peak_memory_stats,
    synchronize,
)

__all__ = [
    "current_accelerator",
    "current_device_index",
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device_index",
    "synchronize",
]


def current_accelerator(check_available: bool = False) -> Any:
    """The default device if it is a GPU, else None.

    >>> nc.accelerator.current_accelerator() in (None, nc.default_device())
    True
    """
    return nc.default_device() if is_available() else None


current_device_index = cuda.current_device
set_device_index = cuda.set_device


def __getattr__(name: str) -> Any:
    raise absence("accelerator", name, __all__)
