"""The stream of the NumPy path: buffers are flat NumPy arrays. It needs no OpenCL at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.dtypes import Dtype
from netcl_core.errors import DeviceError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Forms
from netcl_core.runtime.opencl_stream import Launch, fill_pattern

Array: TypeAlias = np.ndarray[Any, Any]
#: The largest block from which glibc learns (32 MiB with what it adds), less some pages.
_LEARNT: Final = (1 << 25) - (1 << 16)


@final
class NumpyStream:
    """Memory and work of the NumPy path; see `stream.Stream`."""

    def __init__(self, device: Device) -> None:
        self.device = device
        _keep_freed_pages()

    def allocate(self, size: int, dtype: Dtype) -> Array:
        try:
            return np.empty(size, dtype.numpy)
        except MemoryError as error:
            expected = "less than the host has"
            raise DeviceError(message("memory", f"{error}", expected)) from error

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        raise DeviceError(message(launch.who, "a kernel on the NumPy path", "an OpenCL device"))

    def upload(self, array: Array, dtype: Dtype) -> Array:
        return np.array(array, dtype.numpy, copy=True, order="C").reshape(-1)

    def write(self, buffer: Array, array: Array, dtype: Dtype) -> None:
        np.copyto(buffer, array.reshape(-1), casting="unsafe")

    def download(self, buffer: Array, size: int, dtype: Dtype) -> Array:
        return buffer.copy()

    def copy(self, target: Array, source: Array, size: int, dtype: Dtype) -> None:
        np.copyto(target, source)

    def fill(self, buffer: Array, size: int, dtype: Dtype, value: Any) -> None:
        buffer[...] = fill_pattern(value, dtype)

    def host_call(
        self, run: Callable[..., None], inputs: Sequence[Any], outputs: Sequence[Any], forms: Forms
    ) -> None:
        places = zip((*inputs, *outputs), forms, strict=True)
        arrays = [buffer.reshape(form[0]) for buffer, form in places]
        with np.errstate(all="ignore"):
            run(arrays[: len(inputs)], *arrays[len(inputs) :])

    def finish(self) -> None:
        """Nothing is ever under way."""


@cache
def _keep_freed_pages() -> None:
    """Teach the C library to keep the memory of freed arrays, so that the next ones find it.

    glibc gives memory at the end of its heap back to the system as soon as twice the largest
    block that a program has freed lies there, and takes larger blocks from the system one by one.
    The system clears every page that it gives out again, which takes longer than most ops. From
    a block of nearly 32 MiB, of which no page is touched, it learns to keep up to 64 MiB, and to
    do this for all smaller ones. Elsewhere, and where the environment sets its thresholds
    (`MALLOC_TRIM_THRESHOLD_`), this does nothing.
    """
    np.empty(_LEARNT, np.uint8)
