"""Poison: for a while new device memory holds NaN, so that what no kernel wrote is seen.

A pool hands out what was freed before, and that is often the right result of the same op.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, final

import numpy as np

from netcl_core.device.device import Device, opencl_module
from netcl_core.runtime import memory
from netcl_core.runtime.opencl_stream import OpenCLBackend
from netcl_core.runtime.stream import backend_of

#: All bits set: NaN in every floating dtype, -1 in whole ones, no bool.
_PATTERN: Final = np.uint8(255)


@final
class _Poisoned:
    """A device's pool whose buffers come filled."""

    def __init__(self, device: Device, pool: Any) -> None:
        self.device = device
        self.pool = pool

    def allocate(self, nbytes: int) -> Any:
        buffer = self.pool.allocate(nbytes)
        fill = opencl_module().enqueue_fill_buffer
        fill(self.device.queue, buffer, _PATTERN, 0, nbytes)
        return buffer

    def free_held(self) -> None:
        self.pool.free_held()


@contextmanager
def poisoned(device: Device | None) -> Iterator[None]:
    """Fill every new buffer of an OpenCL device; nothing for NumPy and for none."""
    backend = None if device is None else backend_of(device)
    if not isinstance(backend, OpenCLBackend):
        yield
        return
    assert device is not None  # it has a backend
    pool, take = memory.pool(device), backend._take
    memory._pools[device] = poison = _Poisoned(device, pool)
    backend._take = poison.allocate
    try:
        yield
    finally:
        memory._pools[device], backend._take = pool, take
