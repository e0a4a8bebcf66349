"""Remembers what stood in manifests, since parsing TOML takes longer than all else of a survey."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, TypeAlias, final

from netcl_core import config
from netcl_core.plugins.market import notebook
from netcl_core.plugins.market.manifests import Manifest, parse, table_in

_SCHEMA: Final = 1
_MOST: Final = 500
#: The times of a file in nanoseconds, its size in bytes, and its table.
_Known: TypeAlias = tuple[int, int, int, dict[str, Any]]


@final
class ManifestMemory:
    """The tables of manifests, each for as long as its file stays as it is; `save` them at last."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = config.manifest_memory() if path is None else path
        self._kept = notebook.load(self._path, _SCHEMA, _known) or {}
        self._changed = False

    def read(self, path: Path) -> Manifest:
        """The manifest in a file.

        Raises PluginError as `table_in` and `parse` do, every time: a failure is not remembered.
        """
        key = str(path)
        try:
            stat = path.stat()
        except OSError:
            return parse(table_in(path))  # which says what is wrong
        stamp = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
        known = self._kept.get(key)
        if known is not None and known[:3] == stamp:
            return parse(known[3])
        table = table_in(path)
        self._kept.pop(key, None)
        if _is_json(table):
            self._kept[key] = (*stamp, table)
        self._changed = True
        return parse(table)

    def save(self) -> None:
        """Write what has changed; files that are gone are forgotten, and the first of too many."""
        if self._changed:
            there = [row for row in self._kept.items() if Path(row[0]).is_file()]
            notebook.save(self._path, _SCHEMA, {"manifests": dict(there[-_MOST:])})
            self._changed = False


def _is_json(value: Any) -> bool:
    """Whether JSON gives a value of TOML back as it is; it does not for dates and times."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | int | float)


def _known(table: Any) -> dict[str, _Known]:
    found: dict[str, _Known] = {}
    for path, (modified, changed, size, manifest) in table["manifests"].items():
        if not all(isinstance(each, int) for each in (modified, changed, size)):
            raise TypeError("not a memory of ours")
        found[path] = (modified, changed, size, dict(manifest))
    return found
