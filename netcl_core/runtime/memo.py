"""Memo: what was made for a key, until so many others have been asked for since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, final

Key = TypeVar("Key")
Value = TypeVar("Value")


@final
class Memo(Generic[Key, Value]):
    """At most `maxsize` values by key; the least recently used one goes first.

    Threads may share it. Two that miss the same key at once both make a value, and
    `put` gives both of them the first one.
    """

    __slots__ = ("_lock", "_values", "look", "maxsize")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self._values: OrderedDict[Key, Value] = OrderedDict()
        #: `get` for the hottest paths: a value that is only looked at ages from when it was made.
        self.look: Callable[[Key], Value | None] = self._values.get
        self._lock = threading.RLock()  # comparing keys may run Python, which may come back here

    def get(self, key: Key) -> Value | None:
        """The value of a key, which is now the most recently used; None: there is none."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> Value:
        """Keep a value under a new key; what is kept there already stays, and is returned."""
        with self._lock:
            kept = self._values.setdefault(key, value)
            self._values.move_to_end(key)
            while len(self._values) > self.maxsize:
                self._values.popitem(last=False)
            return kept

    def drop(self, key: Key) -> None:
        """Forget the value of a key, if there is one."""
        with self._lock:
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))
