"""CellRecord: what one run of one cell found, as a JSON file that is never changed again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

from netcl_market.records import read
from netcl_plugin_kit.testing.records import LEVELS, CheckRecord, from_json
from packaging.version import Version

from netcl_core.errors import RecordError, message

SCHEMA: Final = 1
State: TypeAlias = Literal["pass", "fail", "setup_error", "unsupported"]
STATES: Final[tuple[State, ...]] = ("pass", "fail", "setup_error", "unsupported")
RUNTIME: Final = ("name", "platform", "driver", "device")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PYTHON: Final = re.compile(r"\d+\.\d+")
_DEPENDENCY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*([ ,]+[A-Za-z0-9][A-Za-z0-9._+-]*)*")


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """The place of a cell: what is checked with what.

    Attributes:
        dependency: Which version of what the plugin names, such as `torch 2.12.1`; empty: it names
            none.
    """

    plugin: str
    version: str
    core: str
    core_build: str
    python: str
    runtime: str
    level: str
    dependency: str = ""

    @property
    def core_label(self) -> str:
        """The core's version, and its build if it has one."""
        return f"{self.core}-{self.core_build}" if self.core_build else self.core

    @property
    def line(self) -> str:
        """The core, and the dependency's version if there is one."""
        return f"{self.core_label}, {self.dependency}" if self.dependency else self.core_label

    @property
    def slug(self) -> str:
        """A file name."""
        parts = [f"{self.plugin}-{self.version}", self.core_label, f"py{self.python}", self.runtime]
        if self.dependency:
            parts.append(self.dependency.replace(", ", "-").replace(" ", "-"))
        return "__".join(parts)

    def __str__(self) -> str:
        return (
            f"{self.plugin} {self.version}, core {self.line}, Python {self.python}, {self.runtime}"
        )


@final
@dataclass(frozen=True, slots=True)
class CellRecord:
    """One run of one cell.

    Attributes:
        runtime: name, platform, driver and device; what is unknown is empty.
        reason: Why it is not `pass`.
        log: The last lines of what ended badly.
        packages: What was installed in the cell's environment.
        content: What decides whether the cell has to run again: digests of the wheels, the
            Python, the runtime's driver, the level.
    """

    plugin: str
    version: str
    core: str
    core_build: str
    python: str
    runtime: Mapping[str, str]
    level: str
    state: State
    date: str
    reason: str = ""
    log: str = ""
    seconds: float = 0.0
    packages: Mapping[str, str] = field(default_factory=dict)
    content: Mapping[str, str] = field(default_factory=dict)
    check: CheckRecord | None = None
    dependency: str = ""
    schema: int = SCHEMA
    kind: str = "cell"

    @property
    def cell(self) -> Cell:
        """Where it belongs."""
        place = (self.plugin, self.version, self.core, self.core_build, self.python)
        return Cell(*place, self.runtime["name"], self.level, self.dependency)

    def as_json(self) -> dict[str, Any]:
        """The record as JSON data."""
        return asdict(self)


#: What is told of each cell when it is decided, and when it begins (without a record).
Watch: TypeAlias = Callable[[Cell, CellRecord | None, bool], None]


def now() -> str:
    """The time of a record: UTC, fine enough to order what ran in the same second."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def save(record: CellRecord, folder: Path) -> Path:
    """Write a record into a file of its own, whole or not at all; no existing file is touched."""
    text = json.dumps(record.as_json(), indent=1, ensure_ascii=False) + "\n"
    day = datetime.fromisoformat(record.date).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record.cell.slug}__{day}-{digest}.json"
    handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).chmod(0o444)
        path.hardlink_to(name)
    except FileExistsError:
        if path.read_text(encoding="utf-8") != text:
            raise
    finally:
        Path(name).unlink()
    return path


def load(*folders: Path) -> tuple[list[CellRecord], list[RecordError]]:
    """Every cell's record in some folders, the oldest first, and why files could not be read.

    Records of other kinds are passed over. Files of one name are one record.
    """
    cells, broken = [], []
    paths = {path.name: path for folder in folders for path in folder.glob("*.json")}
    for _, path in sorted(paths.items()):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(data, dict) and data.get("kind") == "cell":
                cells.append(read_cell(path.name, data))
        except RecordError as error:
            broken.append(error)
        except (OSError, ValueError, RecursionError) as error:  # JSON's and UTF-8's are ValueErrors
            broken.append(RecordError(message(path.name, str(error), "JSON")))
    return sorted(cells, key=lambda record: record.date), broken


def latest(records: list[CellRecord]) -> dict[Cell, CellRecord]:
    """The newest record of each cell."""
    return {record.cell: record for record in sorted(records, key=lambda each: each.date)}


def reasons(
    records: Iterable[CellRecord], states: Sequence[State]
) -> list[tuple[State, str, list[Cell]]]:
    """(state, reason, the cells that have it) of all records in some states, in their order."""
    cells_of: dict[tuple[State, str], list[Cell]] = {}
    for record in sorted(records, key=lambda each: STATES.index(each.state)):
        if record.state in states:
            cells_of.setdefault((record.state, record.reason), []).append(record.cell)
    return [(state, reason, cells) for (state, reason), cells in cells_of.items()]


def _check_place(cell: Cell) -> None:
    """Raise ValueError unless a cell can be sorted, and named as a file."""
    Version(cell.version)
    Version(cell.core)
    for text in (cell.plugin, cell.runtime, cell.core_build or "0", cell.python):
        if not _NAME.fullmatch(text):
            raise ValueError(f"the name {text!r:.80}")
    if cell.dependency and not _DEPENDENCY.fullmatch(cell.dependency):
        raise ValueError(f"the dependency {cell.dependency!r:.80}")
    if cell.level not in LEVELS or not _PYTHON.fullmatch(cell.python):
        raise ValueError(f"level {cell.level!r:.80}, Python {cell.python!r:.80}")


def read_cell(name: str, data: Mapping[str, Any]) -> CellRecord:
    """A cell's record from JSON data; raises RecordError that begins with the name."""
    if data.get("schema") != SCHEMA:
        remedy = "Upgrade netcl-plugin-tools"
        raise RecordError(message(name, f"schema {data.get('schema')!r}", str(SCHEMA), remedy))
    try:
        record: CellRecord = read(CellRecord, {**data, "check": None})
        datetime.fromisoformat(record.date)
        if set(RUNTIME) - set(record.runtime):
            raise ValueError(f"runtime {sorted(record.runtime)}")
        _check_place(record.cell)
        check = data.get("check")
        return record if check is None else replace(record, check=from_json(check))
    except ValueError as error:  # a missing field, a date that is none, a check that is none
        raise RecordError(message(name, str(error), "the fields of a cell's record")) from error
