"""Memo: what was made for a key, until so many others have been asked for since."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any, Generic, TypeVar, final

Key = TypeVar("Key")
Value = TypeVar("Value")


@final
class Memo(Generic[Key, Value]):
    """At most `maxsize` values by key; the least recently used one goes first.

    Threads may share it. Two that miss the same key at once both make a value, and
    `put` gives both of them the first one. A hit is one look-up: it only notes the time.
    """

    __slots__ = ("_heap", "_lock", "_ticks", "_values", "maxsize")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self._values: dict[Key, list[Any]] = {}  # the value, and when it was used last
        self._heap: list[tuple[int, Any, Any]] = []  # by a use that may be long past
        self._ticks = itertools.count()
        self._lock = threading.RLock()  # comparing keys may run Python, which may come back here

    def get(self, key: Key) -> Value | None:
        """The value of a key, which is now the most recently used; None: there is none."""
        found = self._values.get(key)
        if found is None:
            return None
        found[1] = next(self._ticks)
        return found[0]  # type: ignore[no-any-return]  # a Value

    def put(self, key: Key, value: Value) -> Value:
        """Keep a value under a new key; what is kept there already stays, and is returned."""
        with self._lock:
            used = next(self._ticks)
            made = [value, used]
            kept = self._values.setdefault(key, made)
            if kept is made:
                entered: tuple[int, Any, Any] = (used, key, made)
                heappush(self._heap, entered)
                while len(self._values) > self.maxsize:
                    self._drop_oldest()
            return kept[0]  # type: ignore[no-any-return]  # a Value

    def _drop_oldest(self) -> None:
        used, key, entered = self._heap[0]
        kept = self._values.get(key)
        if kept is None or kept is not entered:  # dropped before
            heappop(self._heap)
        elif kept[1] != used:  # used since
            heapreplace(self._heap, (kept[1], key, kept))
        else:
            heappop(self._heap)
            del self._values[key]

    def drop(self, key: Key) -> None:
        """Forget the value of a key, if there is one."""
        with self._lock:
            if self._values.pop(key, None) and len(self._heap) > 2 * self.maxsize:
                self._heap = [each for each in self._heap if self._values.get(each[1]) is each[2]]
                heapify(self._heap)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
            self._heap.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))
