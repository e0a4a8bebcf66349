"""JSON files in the cache folder that save time and nothing else.

Such a file may be missing, damaged, somebody else's or of another version of netcl, and the disk
may be full or read-only: then what it held is found out again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from netcl_core.errors import PluginError
from netcl_core.files import keep_whole

T = TypeVar("T")
Row = TypeVar("Row")
#: What is raised by reading what is none of ours, or no longer.
DAMAGED: Final = (
    OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, PluginError,
)  # fmt: skip


def load(path: Path, schema: int, make: Callable[[Any], T]) -> T | None:
    """What `make` makes of the file's table; None where the file or a value does not fit."""
    try:
        table: Any = json.loads(path.read_text(encoding="utf-8"))
        return make(table) if table["schema"] == schema else None
    except DAMAGED:
        return None


def save(path: Path, schema: int, table: dict[str, Any]) -> None:
    """Write a table, whole or not at all; for several processes and threads at a time."""
    with contextlib.suppress(OSError, RecursionError):  # a manifest may be nested without end
        keep_whole(path, json.dumps({"schema": schema, **table}).encode("utf-8"))


class Rows(Generic[Row]):
    """A file of rows, each kept by a path while that exists; `save` it at last."""

    def __init__(self, path: Path, schema: int, name: str, make: Callable[[Any], Row]) -> None:
        def rows(table: Any) -> dict[str, Row]:
            return {key: make(row) for key, row in table[name].items()}

        self._path, self._schema, self._name = path, schema, name
        self._kept = load(path, schema, rows) or {}
        self._changed = False

    def save(self) -> None:
        """Write what has changed; what is gone is forgotten."""
        if self._changed:
            there = {key: row for key, row in self._kept.items() if Path(key).exists()}
            save(self._path, self._schema, {self._name: there})
            self._changed = False
