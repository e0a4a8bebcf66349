"""WatchedValues: some reads with what they gave, and a quick sign that they would give it again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from ctypes import string_at
from functools import partial
from itertools import chain
from operator import call, is_
from types import MappingProxyType
from typing import Any, Final, final

from netcl_core.inspect.programs import same

#: More than this is no cheap check any more.
_MOST: Final = 20_000
#: Stands behind the items of a container, and in none: a longer or shorter one shows.
_END: Final = (object(),)


class UnwatchedError(Exception):
    """What a step's code does or reads that cannot be watched."""


@final
class WatchedValues:
    """Reads with what they gave.

    The sign is all that the dicts of layers refer to, all that containers hold, and what the
    other reads give: objects that C collects, and compares by their addresses. Only where these
    are others each read is done, and its value compared.
    """

    def __init__(self) -> None:
        self._labels: list[str] = []
        self._reads: list[Callable[[], Any]] = []
        self._expected: list[Any] = []
        self._containers: list[Any] = []
        self._views: list[Iterable[Any]] = []
        self._others: list[Callable[[], Any]] = []
        self._count = 0
        self._held: tuple[Any, ...] = ()  # which keeps the addresses from being those of others
        self._sign = b""

    def read(self, label: str, read: Callable[..., Any], *args: Any, shown: bool = False) -> Any:
        """Do a read, and expect its value from now on; `shown`: the sign shows it."""
        bound = partial(read, *args)
        value = bound()
        self._labels.append(label)
        self._reads.append(bound)
        self._expected.append(value)
        if not shown:
            self._others.append(bound)
        self._count += 1 + (len(value) if type(value) is tuple else 0)
        if self._count > _MOST:
            raise UnwatchedError("it reads more objects than can be watched")
        return value

    def contents(self, label: str, container: Any) -> None:
        """Expect that a container holds the same objects, and no more."""
        keys = isinstance(container, (dict, MappingProxyType))
        views = (container, container.values()) if keys else (container,)
        for view in views:
            self.read(label, tuple, view, shown=True)
        if not self.shows(container, _END, keys):
            self._views += chain.from_iterable((view, _END) for view in views)

    def shows(self, container: Any, end: Any, keys: bool = False) -> bool:
        """Let the sign show what a container holds; False: it cannot.

        Args:
            container: A list, a set or a dict; of this the values count.
            end: It leads to what no other container holds: of a layer's dict it is the layer.
            keys: Whether the keys count, too.
        """
        objects = gc.get_referents(container)
        items = container.values() if isinstance(container, dict) else container
        if len(objects) != len(items) or not all(map(is_, objects, items)):
            return False
        self._containers += (container, end)
        if keys:  # as many as values, which have an end
            self._views.append(container)
        return True

    def hold(self) -> bool:
        """Whether everything is as it was: plain values may be other objects that are equal."""
        objects = gc.get_referents(*self._containers)
        objects += chain.from_iterable(self._views)
        objects += map(call, self._others)
        now = tuple(objects)
        sign = addresses(now)
        if sign == self._sign:
            return True
        values = list(map(call, self._reads))
        if not _alike(values, self._expected):
            return False
        self._expected, self._held, self._sign = values, now, sign
        return True

    def changed(self) -> str:
        """What is no longer as it was, in words; empty: all of it is."""
        rows = zip(self._labels, self._reads, self._expected, strict=True)
        return next((label for label, read, former in rows if not _alike([read()], [former])), "")


def addresses(objects: tuple[Any, ...]) -> bytes:
    """Where objects lie, in one piece: it is all that a tuple has in CPython behind its head."""
    return string_at(id(objects) + tuple.__basicsize__, len(objects) * tuple.__itemsize__)


def _alike(now: Sequence[Any], former: Sequence[Any]) -> bool:
    """Whether values are the same; plain ones, also in tuples, may be other objects."""
    if len(now) != len(former):
        return False
    others = ((one, other) for one, other in zip(now, former, strict=True) if one is not other)
    return all(
        _alike(one, other) if type(one) is type(other) is tuple else same(one, other)
        for one, other in others
    )
