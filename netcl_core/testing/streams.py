"""Streams that check: one notes what a device launches, one hands out memory full of NaN.

A pool hands out what was freed before, and that is often the right result of the same op; where
new memory holds NaN, what no kernel wrote is seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, final

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES, Dtype
from netcl_core.runtime.opencl_stream import Launch
from netcl_core.runtime.stream import Stream, StreamWrapper, stream_of, use_stream

#: All bits set: NaN in every floating dtype, -1 in whole ones, no bool.
_PATTERN: Final = 255
_BYTE: Final = DTYPES["uint8"]


@final
class RecordingStream(StreamWrapper):
    """A stream that notes the names of the kernels in `launched`; with `run` off it runs none."""

    def __init__(self, inner: Stream, run: bool = True) -> None:
        super().__init__(inner)
        self.run = run
        self.launched: list[str] = []

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.launched.append(launch.entry)
        if self.run:
            self.inner.launch(launch, buffers, scalars)


def recorded(device: Device, run: bool = True) -> AbstractContextManager[RecordingStream]:
    """Note what this thread launches on a device."""
    return use_stream(RecordingStream(stream_of(device), run))


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
