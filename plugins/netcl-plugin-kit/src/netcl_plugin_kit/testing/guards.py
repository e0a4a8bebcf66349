"""GuardedStream: memory full of NaN, between zones that no kernel may write to.

A pool hands out what was freed before, and that is often the right result of the same op; where
new memory holds NaN, what no kernel wrote is seen. A zone lies before and behind each buffer;
after each launch the zones of what its kernel may write to are compared with what they held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Device
from netcl_core.errors import KernelFindingError
from netcl_core.inspect.data import Array, Dtype
from netcl_core.inspect.sources import kernels_in, read_only
from netcl_core.inspect.streams import (
    Launch,
    Stream,
    StreamWrapper,
    opencl_module,
    stream_of,
    use_stream,
)

#: All bits set: NaN in every floating dtype, -1 in whole ones, no bool.
POISON: Final = 255
_BYTE: Final = DTYPES["uint8"]
#: The bytes of a zone: a row that lies outside is noticed, too, and devices align buffers so.
_ZONE: Final = 4096
#: No value that a kernel may compute repeats in it, in a dtype of any size.
_MARKS: Final[Array] = np.random.default_rng(_ZONE).integers(2, POISON, 2 * _ZONE, np.uint8)


@final
class Guarded:
    """What a buffer of a GuardedStream is a part of; the buffer holds it as `guarded`.

    Attributes:
        whole: The zones with the buffer between them.
        given: What was uploaded, as far as that is known.
        writer: The kernel, in words, that changed what was uploaded.
    """

    __slots__ = ("dtype", "given", "size", "whole", "writer")

    def __init__(self, whole: Any, size: int, dtype: Dtype) -> None:
        self.whole = whole
        self.size = size
        self.dtype = dtype
        self.given: Array | None = None
        self.writer = ""


def writer_of(buffer: Any) -> str:
    """The kernel, in words, that has overwritten an uploaded buffer; empty: none is known."""
    guard: Guarded | None = getattr(buffer, "guarded", None)
    return "" if guard is None else guard.writer


@final
class GuardedStream(StreamWrapper):
    """A stream whose buffers come filled and guarded; `finding` is the first that was found."""

    def __init__(self, inner: Stream) -> None:
        super().__init__(inner)
        self.finding: KernelFindingError | None = None

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self._between_zones(size, dtype)
        self.inner.fill(buffer, size * dtype.itemsize, _BYTE, POISON)
        return buffer

    def upload(self, array: Array, dtype: Dtype) -> Any:
        buffer = self._between_zones(array.size, dtype)
        self.inner.write(buffer, array, dtype)
        if buffer is not None:
            buffer.guarded.given = np.array(array, dtype.numpy, order="C")
        return buffer

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.inner.launch(launch, buffers, scalars)
        fixed = read_only(launch.source, launch.entry)
        for place, buffer in enumerate(buffers):
            guard: Guarded | None = getattr(buffer, "guarded", None)
            if guard is not None and not (place < len(fixed) and fixed[place]):
                self._look(launch, place, guard)
                self._compare(launch, place, buffer, guard)

    def _between_zones(self, size: int, dtype: Dtype) -> Any:
        if not size:
            return None
        cl, nbytes = opencl_module(), size * dtype.itemsize
        whole = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, nbytes + 2 * _ZONE)
        for offset, marks in ((0, _MARKS[:_ZONE]), (_ZONE + nbytes, _MARKS[_ZONE:])):
            cl.enqueue_copy(self.device.queue, whole, marks, dst_offset=offset, is_blocking=False)
        buffer = whole.get_sub_region(_ZONE, nbytes)
        buffer.guarded = Guarded(whole, size, dtype)
        return buffer

    def _look(self, launch: Launch, place: int, guarded: Guarded) -> None:
        """Note a finding if the zones of a buffer were written to."""
        if self.finding is not None:
            return
        copy, queue = opencl_module().enqueue_copy, self.device.queue
        marks, nbytes = np.empty_like(_MARKS), guarded.size * guarded.dtype.itemsize
        copy(queue, marks[:_ZONE], guarded.whole, is_blocking=False)
        copy(queue, marks[_ZONE:], guarded.whole, src_offset=_ZONE + nbytes, is_blocking=True)
        changed = np.flatnonzero(marks != _MARKS)
        if changed.size:
            offsets = np.where(changed < _ZONE, changed - _ZONE, changed - _ZONE + nbytes)
            places = offsets // guarded.dtype.itemsize
            text = f"{_argument(launch, place)} has {_elements(guarded)}, and the kernel writes to"
            self.finding = KernelFindingError("NC701", f"{text} {_listed(np.unique(places))}")

    def _compare(self, launch: Launch, place: int, buffer: Any, guarded: Guarded) -> None:
        """Note who wrote to what was uploaded; the check of a call says whether it may."""
        if guarded.given is None:
            return
        content = self.inner.download(buffer, guarded.size, guarded.dtype)
        if content.tobytes() != guarded.given.tobytes():
            guarded.given, guarded.writer = None, _argument(launch, place)


def _argument(launch: Launch, place: int) -> str:
    """An argument of a kernel by its name in the source."""
    parameters = kernels_in(launch.source).get(launch.entry, "").split(",")
    words = parameters[place].replace("*", " ").split() if place < len(parameters) else []
    return f"{words[-1] if words else f'argument {place}'} of the kernel {launch.entry}"


def _elements(guarded: Guarded) -> str:
    return f"{guarded.size} element{'s' * (guarded.size != 1)} of {guarded.dtype.name}"


def _listed(places: Array) -> str:
    first = ", ".join(map(str, places[:3]))
    more = f" and {places.size - 3} more" if places.size > 3 else ""
    return f"element{'s' * (places.size > 1)} {first}{more}"


@contextmanager
def guarded(device: Device | None) -> Iterator[GuardedStream | None]:
    """Fill and guard every new buffer of an OpenCL device; nothing for NumPy and for none."""
    if device is None or not device.has_kernels:
        yield None
        return
    with use_stream(GuardedStream(stream_of(device))) as stream:
        yield stream
