"""Remembers on disk which plugins failed, so that they can be listed without importing them.

A remembered failure holds for the very files that failed: another version, or another
RECORD of the same version, is forgotten at once. What raised an exception is tried
again by every process; what ended the interpreter is not, until its files change or
`netcl doctor` finds that it loads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core import config
from netcl_market import journal, records
from netcl_market.finding import InstalledDistribution

#: Codes of what must not even be tried.
DEADLY: Final = frozenset({"NP208", "NP209"})
_SCHEMA: Final = 1
_MOST: Final = 200
_LONGEST: Final = 20_000


@final
@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered failure."""

    version: str
    record: str
    code: str
    reason: str
    traceback: str
    at: int


@final
class States:
    """The remembered failures; what this process changes reaches the disk with `save`."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = config.plugin_memory("states.json") if path is None else path
        self._read = self._load()
        self._kept = dict(self._read)

    def get(self, distribution: InstalledDistribution, group: str, name: str) -> Memory | None:
        """What is remembered of an entry point, unless its distribution has changed."""
        key = _key(distribution, group, name)
        state = self._kept.get(key)
        if state is None:
            return None
        if (state.version, state.record) == (distribution.version, distribution.fingerprint()):
            return state
        self.clear(distribution, group, name)
        return None

    def put(
        self,
        distribution: InstalledDistribution,
        group: str,
        name: str,
        code: str,
        reason: str,
        traceback: str = "",
    ) -> None:
        """Remember a failure."""
        memory = Memory(
            distribution.version,
            distribution.fingerprint(),
            code,
            reason[:_LONGEST],
            traceback[-_LONGEST:],
            int(time.time()),
        )
        self._kept[_key(distribution, group, name)] = memory

    def clear(self, distribution: InstalledDistribution, group: str, name: str) -> None:
        """Forget an entry point."""
        self._kept.pop(_key(distribution, group, name), None)

    def save(self) -> None:
        """Write what has changed, whole or not at all; what others wrote meanwhile stays."""
        keys = self._read.keys() | self._kept.keys()
        changed = {key for key in keys if self._read.get(key) != self._kept.get(key)}
        if not changed:
            return
        ours = {key: self._kept[key] for key in changed & self._kept.keys()}
        theirs = {
            key: memory
            for key, memory in self._load().items()
            if key not in changed or self._is_news(key, memory)
        }
        there = {key: memory for key, memory in {**ours, **theirs}.items() if _exists(key)}
        newest = sorted(there, key=lambda key: there[key].at, reverse=True)[:_MOST]
        plugins = {key: asdict(there[key]) for key in sorted(newest)}
        journal.save(self._path, _SCHEMA, {"plugins": plugins})
        self._read = dict(self._kept)

    def _load(self) -> dict[str, Memory]:
        return journal.load(self._path, _SCHEMA, _memories) or {}

    def _is_news(self, key: str, memory: Memory) -> bool:
        """Whether another process found meanwhile that an entry point must not be tried."""
        return memory.code in DEADLY and memory != self._read.get(key)


def _key(distribution: InstalledDistribution, group: str, name: str) -> str:
    return f"{distribution.location}|{group}|{name}"


def _exists(key: str) -> bool:
    return Path(key.split("|", 1)[0]).exists()


def _memories(table: Any) -> dict[str, Memory]:
    memories: dict[str, Memory] = records.read(Mapping[str, Memory], table["plugins"])
    return memories
