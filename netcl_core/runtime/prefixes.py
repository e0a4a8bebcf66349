"""Where the templates of each prefix lie; those of plugins are looked for when one is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar, final

Loader = TypeVar("Loader")


@final
class Prefixes(dict[str, Loader], Generic[Loader]):
    """Loaders by prefix.

    Attributes:
        promised: What enters a prefix that is not there yet, once somebody looks it up.
    """

    def __init__(self, **loaders: Loader) -> None:
        super().__init__(loaders)
        self.promised: dict[str, Callable[[], None]] = {}

    def __missing__(self, prefix: str) -> Loader:
        enter = self.promised.get(prefix)
        if enter is not None:
            enter()  # which other threads wait for as well
        if prefix not in self:
            raise KeyError(prefix)
        return self[prefix]

    def found(self, prefix: str) -> Loader | None:
        """The loader of a prefix; None if there is none."""
        try:
            return self[prefix]
        except KeyError:
            return None

    def names(self) -> list[str]:
        """Every prefix that is there or promised, sorted."""
        return sorted({*self, *self.promised})
