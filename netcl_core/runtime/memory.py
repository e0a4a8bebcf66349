"""Device memory: one pool per device, so that an op does not pay for an allocation."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any, Final, final
from weakref import WeakSet

import numpy as np

from netcl_core.errors import DeviceError, message
from netcl_core.hardware.device import Device, opencl_module

_lock: Final = threading.Lock()
#: The size of the buffer that kernels find zero and leave zero.
ZEROS_BYTES: Final = 1 << 14


@final
class DeviceMemory:
    """The memory of one OpenCL device: its pool, and the most that was in use at a time.

    A freed buffer goes back to the pool at once. Reuse is safe because each device has one
    in-order queue: whoever gets the buffer next also comes later in the queue.

    Attributes:
        pool: The `pyopencl.tools.MemoryPool`.
        peak: The most bytes of living buffers since the start or the last reset. Two threads
            that allocate at the same time may leave it short by one buffer.
        graphs: The memories of captured graphs on the device.
    """

    __slots__ = ("__weakref__", "_zeros", "device", "graphs", "peak", "pool")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.peak = 0
        self.graphs: WeakSet[DeviceMemory] = WeakSet()
        with warnings.catch_warnings():  # pools prefer immediate allocators
            warnings.simplefilter("ignore", UserWarning)
            self.pool = opencl_module().tools.MemoryPool(_allocator(device))
        self._zeros: Any = None

    @property
    def zeros(self) -> Any:
        """A buffer of zeros, made on first use: what counts in it has to leave it so.

        Kernels of one in-order queue never overlap, so that all may use the same.
        """
        if self._zeros is None:
            with _lock:
                if self._zeros is None:
                    cl = opencl_module()
                    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
                    zeros = np.zeros(ZEROS_BYTES, np.uint8)
                    self._zeros = cl.Buffer(self.device.context, flags, hostbuf=zeros)
        return self._zeros

    def again(self, nbytes: int) -> Any:
        """A buffer for which there was no room, after all that can be freed has been freed."""
        self.make_room()
        try:
            return self.pool.allocate(nbytes)
        except (opencl_module().Error, MemoryError) as error:
            raise self.shortage(nbytes, error) from error

    def stats(self) -> dict[str, int]:
        """What `Device.memory_stats` says."""
        active, managed = self.pool.active_bytes, self.pool.managed_bytes
        graphs = sum(graph.pool.managed_bytes for graph in self.graphs)
        peak = max(self.peak, active) + graphs
        return {"allocated": active + graphs, "peak": peak, "reserved": managed + graphs}

    def reset_peak(self) -> None:
        """Start the peak anew."""
        self.peak = self.pool.active_bytes

    def make_room(self) -> None:
        """Give the pool's free buffers back to the driver, and those that only garbage holds."""
        gc.collect()
        self.device.queue.finish()  # type: ignore[union-attr]  # an OpenCL device has one
        for memory in {self, memory_of(self.device)}:
            memory.pool.free_held()

    def shortage(self, nbytes: int | None, error: Exception) -> DeviceError:
        """The error for memory that cannot be had; None: of buffers made before."""
        what = "buffers" if nbytes is None else _readable(nbytes)
        assert self.device.cl_device is not None  # an OpenCL device has one
        whole = _readable(self.device.cl_device.global_mem_size)
        largest = _readable(self.device.cl_device.max_mem_alloc_size)
        used = _readable(memory_of(self.device).stats()["allocated"])
        return DeviceError(
            message(
                str(self.device),
                f"{what} could not be allocated, with {used} in use ({error})",
                f"room on a device of {whole}, which gives at most {largest} at a time",
                "Use a smaller batch, free what is no longer needed, or autodiff.checkpoint",
            )
        )


_memories: Final[dict[Device, DeviceMemory]] = {}


def memory_of(device: Device) -> DeviceMemory:
    """The memory of an OpenCL device; made on first use."""
    memory = _memories.get(device)
    if memory is None:
        with _lock:
            memory = _memories.get(device) or DeviceMemory(device)
            _memories[device] = memory
    return memory


def memory_of_graph(device: Device) -> DeviceMemory:
    """A memory beside the device's: what is freed to it, nobody gets but from it."""
    memory = DeviceMemory(device)
    memory_of(device).graphs.add(memory)
    return memory


def free_held(least: int = 0) -> None:
    """Give the drivers what pools keep for later, if that is more than `least` bytes of a pool."""
    for memory in list(_memories.values()):
        if memory.pool.managed_bytes - memory.pool.active_bytes > least:
            memory.pool.free_held()


def _readable(nbytes: int) -> str:
    return f"{nbytes} bytes" if nbytes < 2**20 else f"{nbytes / 2**20:.6g} MiB"


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
