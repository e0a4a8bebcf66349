"""Remembers what was made of files: the tables of manifests, and the digests of RECORDs.

Parsing the one takes longer than all else of a survey, hashing the other longer than all
else of holding what is installed against a lock file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, final

from netcl_core.plugins.market import notebook

_SCHEMA: Final = 1
_MOST: Final = 500
#: The times of a file in nanoseconds, its size in bytes, and what was made of it.
_Known: TypeAlias = tuple[int, int, int, Any]
T = TypeVar("T")


@final
class FileMemory:
    """JSON values made of files, each while its file stays as it is; `save` them at last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = notebook.load(path, _SCHEMA, _known) or {}
        self._changed = False

    def recall(self, path: Path, make: Callable[[], Any], read: Callable[[Any], T]) -> T:
        """What `read` sees in the value that `make` gives for a file, now or some time before.

        Raises what these two raise, every time: a failure is not remembered.
        """
        try:
            stat = path.stat()
        except OSError:
            return read(make())  # which says what is wrong
        key, stamp = str(path), (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
        known = self._kept.get(key)
        if known is not None and known[:3] == stamp:
            try:
                return read(known[3])
            except notebook.DAMAGED:  # or the file itself is wrong, which is said below
                pass
        value = make()
        self._kept.pop(key, None)
        if _is_json(value):
            self._kept[key] = (*stamp, value)
        self._changed = True
        return read(value)

    def save(self) -> None:
        """Write what has changed; files that are gone are forgotten, and the first of too many."""
        if self._changed:
            there = [row for row in self._kept.items() if Path(row[0]).is_file()]
            notebook.save(self._path, _SCHEMA, {"files": dict(there[-_MOST:])})
            self._changed = False


def _is_json(value: Any) -> bool:
    """Whether JSON gives a value back as it is; it does not for the dates and times of TOML."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | int | float)


def _known(table: Any) -> dict[str, _Known]:
    return {
        path: (modified, changed, size, value)
        for path, (modified, changed, size, value) in table["files"].items()
    }
