"""Watches: values that should stay what they are, all compared in a few calls into C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from operator import call, is_
from types import MethodType
from typing import Any, Final, final

import numpy as np

PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))
#: More than this is no cheap check any more.
_LARGEST: Final = 32768
#: So many bytes of an array at a time: they stay in the processor's cache.
_CHUNK: Final = 1 << 18


class TooMuchError(Exception):
    """There is more to watch than can be compared at each call."""


@final
class GuardedValues:
    """What some reads give, what some containers hold, and the bits of some arrays.

    Everything is compared by identity first, which costs some 20 ns each; numbers and words
    that are other objects by value.
    """

    def __init__(self) -> None:
        self._reads: list[Callable[[], Any]] = []
        self._expected: list[Any] = []
        self._views: list[Iterable[Any]] = []
        self._items: list[Any] = []
        self._arrays: list[_Bits] = []

    def __len__(self) -> int:
        return len(self._expected) + len(self._items) + len(self._arrays)

    def read(self, read: Callable[[], Any], expected: Any) -> None:
        """Expect that `read()` gives this value."""
        self._reads.append(read)
        self._expected.append(expected)
        self._count()

    def contents(self, container: Iterable[Any]) -> None:
        """Expect that iterating gives the same objects, and no more."""
        end = (object(),)  # stands in no container, so that a longer or shorter one shows
        self._views += (container, end)
        self._items += (*container, *end)
        self._count()

    def array(self, array: Any) -> None:
        """Expect that an array, or what has a buffer, keeps its bits."""
        self._arrays.append(_Bits(array))

    def _count(self) -> None:
        if len(self) > _LARGEST:
            raise TooMuchError

    def holds(self) -> bool:
        """Whether everything is still as it was."""
        try:
            holds = all(map(is_, map(call, self._reads), self._expected))
            holds = holds or _alike(map(call, self._reads), self._expected)
            if holds and self._views:
                holds = all(map(is_, chain.from_iterable(self._views), self._items))
                holds = holds or _alike(chain.from_iterable(self._views), self._items)
            return holds and (not self._arrays or all(bits.same() for bits in self._arrays))
        except RuntimeError:  # a container changes while it is read
            return False


def _alike(values: Iterable[Any], expected: list[Any]) -> bool:
    """The same by value; then these objects are what is expected from now on."""
    now = list(values)
    alike = len(now) == len(expected) and all(map(same, now, expected))
    if alike:
        expected[:] = now
    return alike


def same(now: Any, expected: Any) -> bool:
    """Equality of plain values; a NaN and the sign of zero count by their text."""
    if now is expected:
        return True
    if type(now) is not type(expected):
        return False
    if isinstance(now, float | complex):
        return repr(now) == repr(expected)
    if isinstance(now, MethodType):  # made anew at each look-up
        return now.__func__ is expected.__func__ and now.__self__ is expected.__self__
    return isinstance(now, PLAIN) and bool(now == expected)


@final
class _Bits:
    """The bits of an array that can be written to, kept to be compared.

    Nothing is allocated, so that this takes what reading it twice from memory does. An array
    that nobody can write to (`array.setflags(write=False)`, and its base) keeps them.
    """

    __slots__ = ("_dtype", "_kept", "_shape", "_source")

    def __init__(self, source: Any) -> None:
        array = np.asarray(source)
        self._source = source
        self._dtype, self._shape = array.dtype, array.shape
        self._kept = None if _read_only(source) else _bytes(array.copy(order="C"))

    def same(self) -> bool:
        if self._kept is None:
            return not self._source.flags.writeable
        array = np.asarray(self._source)
        if array.dtype != self._dtype or array.shape != self._shape:
            return False
        now, kept = _bytes(array), self._kept
        return all(
            np.array_equal(now[start : start + _CHUNK], kept[start : start + _CHUNK])
            for start in range(0, kept.size, _CHUNK)
        )


def _bytes(array: Any) -> Any:
    """The bytes of an array in C order, without a copy if it has that order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _read_only(source: Any) -> bool:
    """Whether an array and all that it is a view of are NumPy's and not writeable."""
    while type(source) is np.ndarray and not source.flags.writeable:
        source = source.base
    return source is None or type(source) is bytes
