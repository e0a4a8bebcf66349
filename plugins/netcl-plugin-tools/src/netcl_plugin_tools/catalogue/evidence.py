"""Reads the records of checks and of matrix cells; a bad file is refused by name, not skipped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from netcl_market.owners import Owners
from netcl_market.signing import SUFFIX
from netcl_plugin_kit.packages.metadata import clean
from netcl_plugin_kit.testing.records import CheckRecord, from_json

from netcl_core.errors import RecordError, message
from netcl_plugin_tools.market.statements import record_in
from netcl_plugin_tools.matrix.records import CellRecord, read_cell


@final
@dataclass(slots=True)
class Evidence:
    """All that was read, and (file, reason) of what could not be."""

    checks: list[CheckRecord] = field(default_factory=list)
    cells: list[CellRecord] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    @property
    def everything(self) -> list[CheckRecord | CellRecord]:
        """Checks and cells."""
        return [*self.checks, *self.cells]


def load(folder: Path | None, owners: Owners | None = None) -> Evidence:
    """Read every JSON file below a folder; none without a folder.

    With an owners file only what a checker has signed counts.
    """
    evidence = Evidence()
    for path in sorted(folder.rglob("*.json")) if folder else ():
        signed = path.name.endswith(SUFFIX)
        try:
            if owners is not None and signed:
                evidence.checks.append(_signed(path, owners))
            elif owners is not None and not path.with_name(path.name + SUFFIX).exists():
                given = "no checker has signed it, so it proves nothing"
                raise RecordError(message("record", given, f"{path.name}{SUFFIX} beside it"))
            elif owners is None and not signed:
                _take(_json(path), evidence)
        except RecordError as error:
            evidence.refused.append(
                (path.relative_to(folder or path).as_posix(), clean(str(error)))
            )
    return evidence


def _signed(path: Path, owners: Owners) -> CheckRecord:
    return from_json(_cleaned(record_in(path.read_bytes(), owners).as_json()))


def when(date: str) -> datetime:
    """The moment of a record, to order records by; without a zone it is taken for UTC."""
    moment = datetime.fromisoformat(date)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _json(path: Path) -> Any:
    try:
        return _cleaned(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:  # JSON and UTF-8 errors are ValueErrors
        raise RecordError(message("record", f"it cannot be read: {error}", "JSON")) from error


def _take(data: Any, evidence: Evidence) -> None:
    if isinstance(data, Mapping) and data.get("kind") == "cell":
        cell = read_cell("cell", data)
        evidence.cells.append(cell)
        if cell.check is not None and cell.state != "setup_error":  # that says nothing of a plugin
            evidence.checks.append(replace(cell.check, wheel_sha256=wheel_of(cell)))
    else:  # `netcl plugins check --json` prints one, or a list of them
        rows = data if isinstance(data, list) else [data]
        evidence.checks += [from_json(row) for row in rows]


def wheel_of(record: CheckRecord | CellRecord) -> str:
    """The sha256 of the wheel that a record is of; empty if it does not say."""
    if isinstance(record, CheckRecord):
        return record.wheel_sha256
    return record.content.get("plugin", "")


def _cleaned(data: Any) -> Any:
    """The same data without control characters in texts."""
    if isinstance(data, str):
        return clean(data)
    if isinstance(data, dict):
        return {key: _cleaned(value) for key, value in data.items()}
    return [_cleaned(value) for value in data] if isinstance(data, list) else data
