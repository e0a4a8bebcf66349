"""The OpenCL backend: pooled buffers, asynchronous copies on the device's one queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, final

import numpy as np

from netcl_core.device.device import Device, opencl_module
from netcl_core.dtypes import Dtype
from netcl_core.runtime.memory import out_of_memory, pool

Array: TypeAlias = np.ndarray[Any, Any]


@final
class OpenCLBackend:
    """Memory of one OpenCL device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._uploads: deque[Any] = deque()
        self._take = pool(device).allocate
        self._error = opencl_module().Error

    def allocate(self, size: int, dtype: Dtype) -> Any:
        if not size:
            return None
        try:
            return self._take(size * dtype.itemsize)
        except self._error as error:
            raise out_of_memory(self.device, size * dtype.itemsize, error) from error

    def upload(self, array: Array, dtype: Dtype) -> Any:
        """Copy without waiting: the event keeps our host copy alive until it is done."""
        if not array.size:
            return None
        cl = opencl_module()
        staging = np.array(array, dtype.numpy, copy=True, order="C")
        buffer = self.allocate(staging.size, dtype)
        event = self._enqueue(cl.enqueue_copy, staging.nbytes, buffer, staging, is_blocking=False)
        done = cl.command_execution_status.COMPLETE
        while self._uploads and self._uploads[0].command_execution_status == done:
            self._uploads.popleft()
        self._uploads.append(event)
        return buffer

    def download(self, buffer: Any, size: int, dtype: Dtype) -> Array:
        array = np.empty(size, dtype.numpy)
        if size:
            opencl_module().enqueue_copy(self.device.queue, array, buffer, is_blocking=True)
        return array

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        if size:
            nbytes = size * dtype.itemsize
            self._enqueue(opencl_module().enqueue_copy, nbytes, target, source, byte_count=nbytes)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        if size:
            with np.errstate(all="ignore"):
                pattern = np.asarray(value, dtype.numpy)
            nbytes = size * dtype.itemsize
            fill = opencl_module().enqueue_fill_buffer
            self._enqueue(fill, nbytes, buffer, pattern, 0, nbytes)

    def _enqueue(self, command: Callable[..., Any], nbytes: int, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a command; some drivers make a buffer only when the first one uses it."""
        try:
            return command(self.device.queue, *args, **kwargs)
        except opencl_module().MemoryError as error:
            raise out_of_memory(self.device, nbytes, error) from error
