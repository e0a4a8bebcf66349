"""Reads the records of checks and of matrix cells; a bad file is refused by name, not skipped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

from netcl_core.errors import RecordError, message
from netcl_core.testing.records import Record, from_json
from netcl_plugin_workbench.catalogue.metadata import clean

CELL_SCHEMA: Final = 1
CELL_STATES: Final = ("pass", "fail", "setup_error", "unsupported")


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix: a plugin with a core, a Python and an OpenCL runtime.

    Attributes:
        runtime: `intel`, `pocl`, `oclgrind`, `gpu` or `numpy`; platform, driver and device are
            those that were found, empty where none was.
        check: The record of the check that ran in the cell.
    """

    plugin: str
    version: str
    core: str
    python: str
    runtime: str
    state: str
    date: str
    core_build: str = ""
    platform: str = ""
    driver: str = ""
    device: str = ""
    reason: str = ""
    seconds: float = 0.0
    packages: tuple[tuple[str, str], ...] = ()
    check: Record | None = None


@final
@dataclass(slots=True)
class Evidence:
    """All that was read, and (file, reason) of what could not be."""

    checks: list[Record] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def everything(self) -> list[Record | Cell]:
        """Checks and cells."""
        return [*self.checks, *self.cells]


def load(folder: Path | None) -> Evidence:
    """Read every JSON file below a folder; none without a folder."""
    found = Evidence()
    for path in sorted(folder.rglob("*.json")) if folder else ():
        try:
            _take(_json(path), found)
        except RecordError as error:
            found.refused.append((path.relative_to(folder or path).as_posix(), clean(str(error))))
    return found


def when(date: str) -> datetime:
    """The moment of a record, to order records by; without a zone it is taken for UTC."""
    moment = datetime.fromisoformat(date)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise RecordError(message("record", f"it cannot be read: {error}", "JSON")) from error


def _take(data: Any, found: Evidence) -> None:
    if isinstance(data, Mapping) and data.get("kind") == "cell":
        cell = cell_from_json(data)
        found.cells.append(cell)
        if cell.check is not None:
            found.checks.append(cell.check)
    else:
        found.checks.append(from_json(_cleaned(data)))


def cell_from_json(data: Mapping[str, Any]) -> Cell:
    """A cell from JSON data; raises RecordError if the data are none, or of a newer schema."""
    if data.get("schema") != CELL_SCHEMA:
        raise RecordError(message("cell", f"schema {data.get('schema')!r}", str(CELL_SCHEMA)))
    names = {each.name for each in fields(Cell)} - {"runtime", "packages", "check"}
    data = _cleaned(data)
    runtime, packages, check = data.get("runtime"), data.get("packages", {}), data.get("check")
    if not isinstance(runtime, dict) or not isinstance(packages, dict):
        raise RecordError(message("cell", "its runtime or packages", "objects"))
    known = {name: data[name] for name in names if name in data}
    known |= {name: runtime.get(name) or "" for name in ("platform", "driver", "device")}
    known |= {"runtime": runtime.get("name"), "packages": tuple(sorted(packages.items()))}
    texts = [value for name, value in known.items() if name not in ("packages", "seconds")]
    try:
        if not all(isinstance(text, str) for text in [*texts, *packages.values()]):
            raise TypeError("a value is no text")
        known["seconds"] = float(known.get("seconds", 0))
        cell = Cell(**known, check=None if check is None else from_json(check))
        when(cell.date)
    except (TypeError, ValueError) as error:
        raise RecordError(message("cell", str(error), "the fields of a cell")) from error
    if cell.state not in CELL_STATES:
        raise RecordError(message("cell", f"state {cell.state!r}", " or ".join(CELL_STATES)))
    return cell


def _cleaned(data: Any) -> Any:
    """The same data without control characters in texts."""
    if isinstance(data, str):
        return clean(data)
    if isinstance(data, dict):
        return {key: _cleaned(value) for key, value in data.items()}
    return [_cleaned(value) for value in data] if isinstance(data, list) else data
