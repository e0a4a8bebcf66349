"""Poison: for a while new device memory holds NaN, so that what no kernel wrote is seen.

A pool hands out what was freed before, and that is often the right result of the same op.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, final

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES, Dtype
from netcl_core.runtime.stream import StreamWrapper, stream_of, use_stream

#: All bits set: NaN in every floating dtype, -1 in whole ones, no bool.
_PATTERN: Final = 255
_BYTE: Final = DTYPES["uint8"]


@final
class PoisonedStream(StreamWrapper):
    """A stream whose buffers come filled."""

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self.inner.allocate(size, dtype)
        self.inner.fill(buffer, size * dtype.itemsize, _BYTE, _PATTERN)
        return buffer


def poisoned(device: Device | None) -> AbstractContextManager[Any]:
    """Fill every new buffer of an OpenCL device; nothing for NumPy and for none."""
    if device is None or device.backend != "opencl":
        return nullcontext()
    return use_stream(PoisonedStream(stream_of(device)))
