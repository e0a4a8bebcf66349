"""What is asked of the loader of plugins: each need once, and before anything is looked up."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, TypeAlias, final

from netcl_core.plugins.kinds import OP_KINDS

#: Kinds, and a name or "" for all names. Without a kind: what does not say what it brings; None
#: instead of kinds: all that is installed.
Need: TypeAlias = tuple[tuple[str, ...] | None, str]
_FIRST: Final[Need] = (), ""
_LOADER: Final = "netcl_core.plugins.loading"
#: Loads whoever may meet a need; that without a kind comes before all others.
Loader: TypeAlias = Callable[[tuple[str, ...] | None, str], None]


def load_needed(kinds: tuple[str, ...] | None, name: str) -> None:
    """Let the room of loading do it, which lies above the registry."""
    importlib.import_module(_LOADER).load_needed(kinds, name)


@final
class Demand:
    """The needs of one registry.

    Attributes:
        loader: None once everything is loaded.
        promised: What plugins that are not loaded yet will bring: kind and name -> their keys.
        peeked: Whether a plugin has looked up, while it was loaded, what was still coming.
        apart: A block in which a thread is in the middle of nothing, as at its start.
    """

    def __init__(self, loader: Loader, lock: threading.RLock) -> None:
        self.loader: Loader | None = loader
        self.promised: dict[tuple[str, str], set[str]] = {}
        self.peeked = False
        self.apart: Callable[[], AbstractContextManager[None]] = nullcontext
        self.lock = lock
        self._met: set[Need] = set()
        self._meeting: list[Need] = []

    def meet(self, need: Need) -> None:
        """See `Registry.load`."""
        if self.loader is None or need in self._met:
            return
        with self.lock:
            if need != _FIRST:
                self.meet(_FIRST)
            if need in self._meeting or (need[0] is None and self._meeting):
                self.peeked = True
            elif self.loader is not None and need not in self._met:
                self._ask(self.loader, need)

    def _ask(self, loader: Loader, need: Need) -> None:
        self._meeting.append(need)
        try:
            loader(*need)
        finally:
            self._meeting.pop()
            self.peeked &= bool(self._meeting)
        self._met.add(need)
        if need[0] is None:
            self.loader = None

    @property
    def begun(self) -> bool:
        """Whether it has been looked what is installed."""
        return self.loader is None or _FIRST in self._met

    def ask_again(self, loader: Loader | None) -> None:
        """Let a loader be asked for everything anew."""
        with self.lock:
            self.loader = loader
            self._met.clear()

    def load_within(self, apart: Callable[[], AbstractContextManager[None]]) -> None:
        """Let plugins be loaded in a block of this kind, whatever is going on when they are."""
        self.apart = apart

    def op_names(self) -> set[str]:
        """The names of the ops that are still to come."""
        return {name for kind, name in tuple(self.promised) if kind in OP_KINDS}
