"""The stream of an OpenCL device: pooled buffers and commands on the device's one queue.

Threads share it. The queue takes commands in the order in which they are enqueued, and a
buffer that one thread frees is used by the next owner's commands only after those that are
in the queue already; kernel objects belong to one thread each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.device.device import Device, opencl_module
from netcl_core.dtypes import Dtype
from netcl_core.runtime.launch import Launch
from netcl_core.runtime.memory import out_of_memory, pool
from netcl_core.runtime.uploads import Uploads

Array: TypeAlias = np.ndarray[Any, Any]
#: So many commands are enqueued before the host waits for those that are as many back: a
#: host that runs ahead without end fills the driver's memory with commands.
_AHEAD: Final = 1024


@final
class OpenCLStream:
    """Memory and commands of one OpenCL device; see `stream.Stream`."""

    def __init__(self, device: Device) -> None:
        cl = opencl_module()
        self.device = device
        self._queue = device.queue
        self._uploads = Uploads()
        self._take = pool(device).allocate
        self._enqueue = cl.enqueue_nd_range_kernel
        self._error, self._no_memory, self._misused = cl.Error, cl.MemoryError, cl.LogicError
        self._count = 0
        self._mark: Any = None

    def allocate(self, size: int, dtype: Dtype) -> Any:
        if not size:
            return None
        try:
            return self._take(size * dtype.itemsize)
        except self._error as error:
            raise out_of_memory(self.device, size * dtype.itemsize, error) from error

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        made = launch.of_thread.get(get_ident())
        if made is None or made.last is not launch:
            made = launch.prepared(len(buffers) + len(scalars))
        kernel, set_arg = made.kernel, made.set_arg
        try:
            for index, buffer in enumerate(buffers):
                set_arg(index, buffer)
            if scalars:
                for index, scalar in enumerate(scalars, start=len(buffers)):
                    kernel._set_arg_buf(index, scalar)
            event = self._enqueue(self._queue, kernel, launch.global_size, launch.local_size)
        except self._no_memory as error:  # of buffers that are only made now
            raise out_of_memory(self.device, None, error) from error
        except self._misused as error:
            raise launch.misfit(error) from error
        self._count += 1
        if self._count >= _AHEAD:
            self._hold_back(event)

    def upload(self, array: Array, dtype: Dtype) -> Any:
        """Copy without waiting."""
        if not array.size:
            return None
        staging = np.array(array, dtype.numpy, copy=True, order="C")
        buffer = self.allocate(staging.size, dtype)
        copy = opencl_module().enqueue_copy
        event = self._command(copy, staging.nbytes, buffer, staging, is_blocking=False)
        self._uploads.add(event, staging.nbytes)
        return buffer

    def download(self, buffer: Any, size: int, dtype: Dtype) -> Array:
        array = np.empty(size, dtype.numpy)
        if size:
            opencl_module().enqueue_copy(self._queue, array, buffer, is_blocking=True)
            self._uploads.drop_finished()
        return array

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        if size:
            nbytes = size * dtype.itemsize
            self._command(opencl_module().enqueue_copy, nbytes, target, source, byte_count=nbytes)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        if size:
            with np.errstate(all="ignore"):
                pattern = np.asarray(value, dtype.numpy)
            nbytes = size * dtype.itemsize
            fill = opencl_module().enqueue_fill_buffer
            self._command(fill, nbytes, buffer, pattern, 0, nbytes)

    def host_call(
        self,
        run: Callable[[Sequence[Any], Any], None],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        forms: Sequence[tuple[tuple[int, ...], Any]],
    ) -> None:
        """Map, run and unmap; returns when the work is done."""
        flags = opencl_module().map_flags
        modes = [flags.READ] * len(inputs) + [flags.WRITE_INVALIDATE_REGION] * len(outputs)
        arrays: list[Any] = []
        try:
            for buffer, mode, form in zip((*inputs, *outputs), modes, forms, strict=True):
                arrays.append(self._map(buffer, mode, *form))
            with np.errstate(all="ignore"):
                run(arrays[: len(inputs)], arrays[-1])
        finally:
            for array in arrays:
                if array.size:
                    array.base.release(self._queue)

    def finish(self) -> None:
        assert self._queue is not None  # an OpenCL device has one
        self._queue.finish()
        self._uploads.drop_finished()

    def _map(self, buffer: Any, mode: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        if 0 in shape:
            return np.empty(shape, dtype)
        enqueue = opencl_module().enqueue_map_buffer
        array, _ = enqueue(self._queue, buffer, mode, 0, shape, dtype, is_blocking=True)
        return array

    def _command(self, command: Callable[..., Any], nbytes: int, *args: Any, **kwargs: Any) -> Any:
        """Enqueue a command; some drivers make a buffer only when the first one uses it."""
        try:
            event = command(self._queue, *args, **kwargs)
        except self._no_memory as error:
            raise out_of_memory(self.device, nbytes, error) from error
        self._count += 1
        if self._count >= _AHEAD:
            self._hold_back(event)
        return event

    def _hold_back(self, event: Any) -> None:
        """Wait for the command at which the count began."""
        self._count = 0
        earlier, self._mark = self._mark, event
        if earlier is not None:
            earlier.wait()
