"""Device memory: one pool per device, so that an op does not pay for an allocation."""

from __future__ import annotations

import threading
import warnings
from typing import Any, Final

from netcl_core.device.device import Device, opencl_module
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
                found = _pools[device] = new_pool(device)
    return found


def new_pool(device: Device) -> Any:
    """A pool beside the device's: what is freed to it, nobody gets but from it."""
    with warnings.catch_warnings():  # pools prefer immediate allocators
        warnings.simplefilter("ignore", UserWarning)
        return opencl_module().tools.MemoryPool(_allocator(device))


def _allocator(device: Device) -> Any:
    """What the pool gets its buffers from.

    An immediate allocator enqueues a migration, so that a lack of memory shows at once.
    In NVIDIA's driver (580) such a migration beside another thread's copies crashes the
    process; there memory is found missing when the first kernel or copy uses it.
    """
    tools = opencl_module().tools
    if device.platform.startswith("NVIDIA"):
        return tools.DeferredAllocator(device.context)
    return tools.ImmediateAllocator(device.queue)


def out_of_memory(device: Device, nbytes: int | None, error: Exception) -> DeviceError:
    """The error for a failed allocation; the pool's free buffers are given back first."""
    pool(device).free_held()
    what = "buffers" if nbytes is None else f"{nbytes} bytes"
    return DeviceError(
        message(
            str(device),
            f"{what} could not be allocated ({error})",
            "enough free device memory",
            "Use a smaller batch, or free tensors that are no longer needed",
        )
    )
