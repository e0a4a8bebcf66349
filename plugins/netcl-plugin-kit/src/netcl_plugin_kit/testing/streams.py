"""RecordingStream: notes what a device launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, final

from netcl_core import Device
from netcl_core.inspect.streams import Launch, Stream, StreamWrapper, stream_of, use_stream


@final
class RecordingStream(StreamWrapper):
    """A stream that notes the names of the kernels in `launched`; with `run` off it runs none.

    Attributes:
        items: The most work-items that one was launched with.
    """

    def __init__(self, inner: Stream, run: bool = True) -> None:
        super().__init__(inner)
        self.run = run
        self.launched: list[str] = []
        self.items = 0

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.launched.append(launch.entry)
        self.items = max(self.items, math.prod(launch.global_size))
        if self.run:
            self.inner.launch(launch, buffers, scalars)


def recorded(device: Device, run: bool = True) -> AbstractContextManager[RecordingStream]:
    """Note what this thread launches on a device.

    >>> x = nc.tensor([1.0], device="numpy")
    >>> with recorded(x.device) as stream:
    ...     y = ag.relu(x)
    >>> stream.launched  # NumPy computes without kernels
    []

    Args:
        device: The device.
        run: Whether the launches happen too.
    """
    return use_stream(RecordingStream(stream_of(device), run))
