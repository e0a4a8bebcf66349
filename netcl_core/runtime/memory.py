"""Device memory: one pool per device, so that an op does not pay for an allocation."""

from __future__ import annotations

import threading
from typing import Any, Final

from netcl_core.device import Device, opencl_module
from netcl_core.errors import DeviceError, message

_pools: Final[dict[Device, Any]] = {}
_lock: Final = threading.Lock()


def pool(device: Device) -> Any:
    """The device's `pyopencl.tools.MemoryPool`; a freed buffer goes back to it at once.

    Reuse is safe because each device has one in-order queue: whoever gets the
    buffer next also comes later in the queue.
    """
    found = _pools.get(device)
    if found is None:
        with _lock:
            found = _pools.get(device)
            if found is None:
                from_driver = opencl_module().tools.ImmediateAllocator(device.queue)
                found = _pools[device] = opencl_module().tools.MemoryPool(from_driver)
    return found


def allocate(device: Device, nbytes: int) -> Any:
    """A buffer of at least `nbytes` bytes; raises DeviceError if the device has no room."""
    try:
        return pool(device).allocate(nbytes)
    except opencl_module().Error as error:
        raise out_of_memory(device, nbytes, error) from error


def out_of_memory(device: Device, nbytes: int, error: Exception) -> DeviceError:
    """The error for a failed allocation; the pool's free buffers are given back first."""
    pool(device).free_held()
    return DeviceError(
        message(
            str(device),
            f"{nbytes} bytes could not be allocated ({error})",
            "enough free device memory",
            "Use a smaller batch, or free tensors that are no longer needed",
        )
    )
