"""Streams: the one object through which all work of a device goes, and how to replace it.

`stream_of(device)` is what everything asks for a device's memory and commands;
`use_stream` puts another in its place for a while, in one thread. A replacement is a
`StreamWrapper` that overrides what it is about: it may count, record, check or refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from netcl_core.dtypes import Dtype
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Forms
from netcl_core.runtime.numpy_stream import NumpyStream
from netcl_core.runtime.opencl_stream import Launch, OpenCLStream


class Stream(Protocol):
    """What a device does. A buffer of no elements is None on OpenCL.

    Work is done in the order in which it is asked for; only `download`, `host_call` and
    `finish` wait for it.
    """

    device: Device

    def allocate(self, size: int, dtype: Dtype) -> Any:
        """An uninitialised buffer of `size` elements."""

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        """Enqueue a kernel with its buffers and the packed scalars of this call."""

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        """A buffer with a copy of a host array."""

    def write(self, buffer: Any, array: np.ndarray[Any, Any], dtype: Dtype) -> None:
        """Overwrite a buffer with a copy of a host array."""

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        """A fresh flat host array."""

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        """Copy `size` elements between two buffers of this device."""

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        """Set all elements to one value."""

    def host_call(
        self, run: Callable[..., None], inputs: Sequence[Any], outputs: Sequence[Any], forms: Forms
    ) -> None:
        """`run(inputs, *outputs)` on the buffers as NumPy arrays of these shapes and dtypes."""

    def finish(self) -> None:
        """Wait until all that was asked for is done."""


class StreamWrapper:
    """A stream that hands everything on; subclasses override what they are about."""

    def __init__(self, inner: Stream) -> None:
        self.inner = inner
        self.device = inner.device

    def allocate(self, size: int, dtype: Dtype) -> Any:
        return self.inner.allocate(size, dtype)

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.inner.launch(launch, buffers, scalars)

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        return self.inner.upload(array, dtype)

    def write(self, buffer: Any, array: np.ndarray[Any, Any], dtype: Dtype) -> None:
        self.inner.write(buffer, array, dtype)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        return self.inner.download(buffer, size, dtype)

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        self.inner.copy(target, source, size, dtype)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        self.inner.fill(buffer, size, dtype, value)

    def host_call(
        self, run: Callable[..., None], inputs: Sequence[Any], outputs: Sequence[Any], forms: Forms
    ) -> None:
        self.inner.host_call(run, inputs, outputs, forms)

    def finish(self) -> None:
        self.inner.finish()


_Replacement = TypeVar("_Replacement", bound=Stream)
#: Of each backend, what runs its work.
_STREAMS: Final[dict[str, Callable[[Device], Stream]]] = {
    "numpy": NumpyStream,
    "opencl": OpenCLStream,
}
_own: Final[dict[Device, Stream]] = {}
#: By thread and device. Empty almost always, which is all that a hot path asks.
replaced: Final[dict[tuple[int, Device], Stream]] = {}


def stream_of(device: Device) -> Stream:
    """The device's stream in this thread: its replacement, else its own."""
    if replaced:
        stream = replaced.get((get_ident(), device))
        if stream is not None:
            return stream
    return _own.get(device) or own_stream(device)


def own_stream(device: Device) -> Stream:
    """The device's own stream, which all threads share; made on first use."""
    stream = _own.get(device)
    if stream is None:
        stream = _own.setdefault(device, _STREAMS[device.backend](device))
    return stream


@contextmanager
def use_stream(stream: _Replacement) -> Iterator[_Replacement]:
    """Let all work of the stream's device go through it, in this thread.

    Scopes nest; a `StreamWrapper(stream_of(device))` keeps what an outer one does.
    """
    key = (get_ident(), stream.device)
    before = replaced.get(key)
    replaced[key] = stream
    try:
        yield stream
    finally:
        if before is None:
            del replaced[key]
        else:
            replaced[key] = before
