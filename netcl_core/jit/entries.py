"""Entries: what a compiled function has been traced to, by what its calls depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

from netcl_core.cache import Memo
from netcl_core.jit.arguments import Structure
from netcl_core.jit.guards import Guards
from netcl_core.jit.program import Program
from netcl_core.plugins.registry import registry
from netcl_core.tape.trace_node import TraceBreak

#: How many programs a function keeps; the least recently used one goes first.
MAX_PROGRAMS: Final = 256


@final
@dataclass(eq=False, slots=True)
class Entry:
    """A traced function for one key: its program, or why there is none.

    `reads` are the facts of the call that the trace looked at, by their index; `sizes`
    the sizes of the tensors that it was traced with, `fixed` the indices of those that it
    depends on. `told` says whether what is not fused has been said, `in_parts` whether the
    function may run in parts where there is no program, `trial` whether that pays.
    """

    guards: Guards | None
    version: int
    program: Program | None = None
    structure: Structure = None
    reason: TraceBreak | None = None
    reads: set[int] = field(default_factory=set)
    sizes: tuple[int, ...] = ()
    fixed: set[int] = field(default_factory=set)
    told: bool = False
    in_parts: bool = False
    trial: Any = None

    def holds(self) -> bool:
        """Whether nothing has changed that the trace read."""
        return self.version == registry.version and (self.guards is None or self.guards.hold())

    def resized(self, sizes: Sequence[int]) -> Entry | None:
        """The entry for tensors of other sizes; None if these may lead to another program."""
        if self.program is None:
            return None
        program = self.program.resized(dict(zip(self.sizes, sizes, strict=True)))
        if program is None:
            return None
        return replace(self, program=program, sizes=(), fixed=set())


@final
class ProgramCache:
    """The entries of a function by key.

    Where an entry depends on facts of the call (numbers, sizes) its key goes on with these.
    Facts count by their text, so that NaN, -0.0, and 1 and 1.0 are apart.
    """

    def __init__(self) -> None:
        self._entries: Memo[Any, Entry] = Memo(MAX_PROGRAMS)
        self._facts: Memo[Any, tuple[int, ...]] = Memo(MAX_PROGRAMS)

    def find(self, key: Any, facts: Callable[[], Sequence[Any]]) -> Entry | None:
        """The entry for a key and the facts of a call, if it still holds."""
        entry = self._entries.get(key)
        if entry is None:
            indices = self._facts.get(key)
            if indices is None:
                return None
            entry = self._entries.get(_extended(key, facts(), indices))
        return entry if entry is not None and entry.holds() else None

    def keep(self, key: Any, facts: Sequence[Any], reads: set[int], entry: Entry) -> None:
        """Enter an entry under a key and those facts that it depends on.

        Where entries of the key have been told apart by too little they are forgotten.
        """
        known = self._facts.get(key) or ()
        if reads.issubset(known):
            indices = known
        else:
            indices = tuple(sorted(reads.union(known)))
            self._facts.drop(key)
            self._facts.put(key, indices)
            self._entries.drop(key)
        full = _extended(key, facts, indices) if indices else key
        self._entries.drop(full)
        self._entries.put(full, entry)

    def __len__(self) -> int:
        return len(self._entries)

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._facts.clear()


def _extended(key: Any, facts: Sequence[Any], indices: Sequence[int]) -> Any:
    return key, tuple([repr(facts[i]) for i in indices])
