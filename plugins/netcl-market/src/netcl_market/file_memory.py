"""Remembers what was made of files: the facts of distributions, the tables of manifests.

Reading and parsing them takes longer than all else of a survey.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, final

from netcl_market import journal

_SCHEMA: Final = 4
#: Of a file its times in nanoseconds, its size in bytes and its inode; nothing where none is there.
_Stamp: TypeAlias = list[int]
T = TypeVar("T")


@final
class FileMemory:
    """JSON values made of files, each while its files stay as they are; `save` them at last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = journal.load(path, _SCHEMA, _known) or {}
        self._changed = False

    def recall(
        self, key: str, files: Sequence[str], make: Callable[[], Any], read: Callable[[Any], T]
    ) -> T:
        """What `read` sees in the value that `make` gives, now or some time before.

        Raises what these two raise, every time: a failure is not remembered.

        Args:
            key: A path, without which the value is forgotten.
            files: What the value is made of.
            make: Gives the value.
            read: Gives what it stands for; it may refuse one that is none of ours.
        """
        stamps = [_stamp(file) for file in files]
        known = self._kept.get(key)
        if known is not None and known[0] == stamps:
            try:
                return read(known[1])
            except journal.DAMAGED:  # or the files themselves are wrong, which is said below
                pass
        value = make()
        self._kept.pop(key, None)
        if any(stamps) and _is_json(value):
            self._kept[key] = stamps, value
        self._changed = True
        return read(value)

    def save(self) -> None:
        """Write what has changed; what is gone is forgotten."""
        if self._changed:
            there = {key: row for key, row in self._kept.items() if Path(key).exists()}
            journal.save(self._path, _SCHEMA, {"files": there})
            self._changed = False


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path takes ten times as long
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino]


def _is_json(value: Any) -> bool:
    """Whether JSON gives a value back as it is; it does not for the dates and times of TOML."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | int | float)


def _known(table: Any) -> dict[str, tuple[list[_Stamp], Any]]:
    return {key: (stamps, value) for key, (stamps, value) in table["files"].items()}
