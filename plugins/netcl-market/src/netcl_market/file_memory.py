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
class FileMemory(journal.Rows[tuple[list[_Stamp], Any]]):
    """JSON values made of files, each while its files stay as they are; `save` them at last."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, "files", _known)

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


def _stamp(path: str) -> _Stamp:
    try:
        stat = os.stat(path)  # noqa: PTH116 - a Path takes ten times as long
    except OSError:
        return []
    return [stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino]


def _is_json(value: Any) -> bool:
    """Whether JSON gives a value back as it is; it does not for the dates and times of TOML."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | int | float)


def _known(row: Any) -> tuple[list[_Stamp], Any]:
    stamps, value = row
    return stamps, value
