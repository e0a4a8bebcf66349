"""Members: a set of optimizers by identity, which keeps none of them alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, final


@final
class Members:
    """Objects of any type, also such as cannot be hashed; those without weak references stay."""

    def __init__(self) -> None:
        self._held: Final[dict[int, Callable[[], Any]]] = {}

    def add(self, member: Any) -> None:
        """Take one in."""
        try:
            self._held[id(member)] = weakref.ref(member)
        except TypeError:
            self._held[id(member)] = lambda: member

    def discard(self, member: Any) -> None:
        """Leave one out."""
        if member in self:
            del self._held[id(member)]

    def clear(self) -> None:
        """Leave all out."""
        self._held.clear()

    def __contains__(self, member: Any) -> bool:
        held = self._held.get(id(member))
        return held is not None and held() is member

    def __bool__(self) -> bool:
        return any(held() is not None for held in self._held.values())
