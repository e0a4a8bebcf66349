"""Memory shared with other libraries: tensors on their arrays, and their arrays on tensors.

On the NumPy path and on OpenCL devices that are the host's CPU nothing is copied. OpenCL works
while the host goes on: who reads shared memory waits first (`device.queue.finish()`).
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, default_device, dtype_name, get_device
from netcl_core.errors import ArgumentError, message
from netcl_core.inspect.data import check_dtype, dense, strided
from netcl_core.inspect.streams import opencl_module, stream_of

#: DLPack's number of a device that is the host.
_HOST: Final = (1, 0)


def shares_memory(device: Device) -> bool:
    """Whether a device computes in the host's memory."""
    return not device.has_kernels or (device.kind == "cpu" and not device.simulator)


def from_buffer(data: Any, device: str | Device | None = None) -> Tensor:
    """A tensor on the memory of an array, or of what has a buffer; a copy on other devices.

    >>> array = np.zeros(3, np.float32)
    >>> x = nc.from_buffer(array, "numpy")
    >>> _ = x.add_(1)
    >>> array
    array([1., 1., 1.], dtype=float32)

    The array lives as long as the tensor. Raises ArgumentError where it is read-only or has gaps.

    Args:
        data: A buffer, as `bytes` or a mapped file.
    """
    array = np.asarray(data)
    target = default_device() if device is None else get_device(device)
    name = dtype_name(array.dtype, "from_buffer")
    check_dtype(name, target)
    if not shares_memory(target) or not array.size:
        return Tensor.from_host(array, target)
    if not (array.flags.c_contiguous and array.flags.writeable):
        given = "a read-only array" if not array.flags.writeable else "an array with gaps"
        remedy = "Use nc.tensor(array), which copies it"
        raise ArgumentError(message("from_buffer", given, "writable memory in C order", remedy))
    buffer: Any = array.reshape(-1)
    if target.has_kernels:
        cl = opencl_module()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(target.context, flags, hostbuf=buffer)
    tensor = Tensor(buffer, array.shape, name, target)
    tensor.is_alias = True
    return tensor


def from_dlpack(source: Any, device: str | Device | None = None) -> Tensor:
    """A tensor on the memory of another library's, by DLPack; as `from_buffer`.

    It has the shape and dtype of `source`.

    >>> array = np.arange(3)
    >>> nc.from_dlpack(array, "numpy")[1].fill_(7).item(), array
    (7, array([0, 7, 2]))

    Args:
        source: An object with `__dlpack__`.
    """
    return from_buffer(np.from_dlpack(source), device)


def shared_array(x: Tensor) -> Any:
    """An array on the memory of a tensor; raises BufferError where the host cannot see it."""
    x = x.value
    device, dtype = x.device, DTYPES[x.dtype].numpy
    if not shares_memory(device):
        text = f"the memory of {device} is not the host's: use x.numpy(), which copies it"
        raise BufferError(text)
    if not x.size:
        return np.empty(x.shape, dtype)
    x.is_alias = True  # its memory stays its own from now on
    flat = x.memory
    if device.has_kernels:
        cl = opencl_module()
        flags = cl.map_flags.READ | cl.map_flags.WRITE
        size = (x.storage.size,)
        flat, _ = cl.enqueue_map_buffer(device.queue, x.memory, flags, 0, size, dtype)
        weakref.finalize(flat, _released, x.memory)
    geometry = x.geometry or dense(x.shape)
    return strided(flat, geometry, x.shape)


def _released(memory: Any) -> None:
    """The last array on a buffer is gone, which had to live until then."""


def to_dlpack(x: Tensor, **options: Any) -> Any:
    """The capsule of `x.__dlpack__()`."""
    options.pop("stream", None)
    if x.dtype == "bfloat16":
        raise BufferError("NumPy's DLPack has no bfloat16: convert with x.float()")
    stream_of(x.device).finish()
    return shared_array(x).__dlpack__(**options)


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Where the memory of `x.__dlpack__()` lies."""
    if not shares_memory(x.device):
        raise BufferError(f"the memory of {x.device} is not the host's")
    return _HOST
