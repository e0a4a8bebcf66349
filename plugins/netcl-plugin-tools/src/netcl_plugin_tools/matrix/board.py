"""Board: the records of a matrix as plugins, rows and columns, with what never ran in between."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import final

from netcl_plugin_kit.testing.records import LEVELS
from packaging.version import Version

from netcl_plugin_tools.matrix.records import Cell, CellRecord
from netcl_plugin_tools.matrix.runtimes import RUNTIMES
from netcl_plugin_tools.matrix.signs import NOT_RUN, SIGNS


@final
@dataclass(frozen=True, slots=True)
class BoardCell:
    """A cell of the board: all its records, the newest last; none if it never ran."""

    cell: Cell
    records: tuple[CellRecord, ...] = ()

    @property
    def latest(self) -> CellRecord | None:
        """The record that counts."""
        return self.records[-1] if self.records else None

    @property
    def state(self) -> str:
        """The state of the record that counts."""
        return self.records[-1].state if self.records else NOT_RUN

    @property
    def slug(self) -> str:
        """The name of its page."""
        return f"{self.cell.slug}__{self.cell.level}"


@final
@dataclass(frozen=True, slots=True)
class Section:
    """One version of a plugin at one level: a row per core, Python and dependency's version.

    Each row has a column per runtime.
    """

    plugin: str
    version: str
    level: str
    rows: tuple[tuple[BoardCell, ...], ...]

    @property
    def places(self) -> list[BoardCell]:
        """Every cell of it."""
        return [place for row in self.rows for place in row]

    @property
    def counts(self) -> dict[str, int]:
        """State -> how many of its cells."""
        return counts(self.places)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """(state, `34/36`) of each runtime, over all cores and Pythons."""
        return [together(counts(places)) for places in zip(*self.rows, strict=True)]


@final
@dataclass(frozen=True, slots=True)
class Board:
    """Everything that a report shows."""

    sections: tuple[Section, ...]
    runtimes: tuple[str, ...]
    newest: str

    @property
    def places(self) -> list[BoardCell]:
        """Every cell."""
        return [place for section in self.sections for place in section.places]

    def newest_sections(self) -> dict[str, Section]:
        """Plugin -> its newest version at the highest level that it was checked at."""
        return {section.plugin: section for section in self.sections}


def counts(places: Iterable[BoardCell]) -> dict[str, int]:
    """State -> number of cells, for every state."""
    counts = Counter(place.state for place in places)
    return {state: counts[state] for state in SIGNS}


def verdict(counts: dict[str, int]) -> str:
    """The state of many cells together: green only if all that can run did, and passed."""
    for state in ("fail", "setup_error"):
        if counts[state]:
            return state
    if not counts["pass"]:
        return "unsupported" if counts["unsupported"] else NOT_RUN
    return NOT_RUN if counts[NOT_RUN] else "pass"


def fraction(counts: dict[str, int]) -> str:
    """`34/36`: how many passed, of all that are not excluded; empty if all are."""
    total = sum(counts.values()) - counts["unsupported"]
    return f"{counts['pass']}/{total}" if total else ""


def together(counts: dict[str, int]) -> tuple[str, str]:
    """The state of many cells and how many of them passed."""
    return verdict(counts), fraction(counts)


def board(records: Sequence[CellRecord]) -> Board:
    """The board of some records; a cell that others have and a plugin lacks is there, not run."""
    history: dict[Cell, list[CellRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda each: each.date):
        history[record.cell].append(record)
    runtimes = sorted({cell.runtime for cell in history}, key=_runtime)
    sections = []
    for plugin, version, level in sorted(
        {(c.plugin, c.version, c.level) for c in history}, key=_at
    ):
        here = [cell for cell in history if cell.level == level]
        rows = sorted({(c.core, c.core_build, c.python) for c in here}, key=_row)
        own = sorted({c.dependency for c in here if (c.plugin, c.version) == (plugin, version)})
        blank = [Cell(plugin, version, *row, runtime="", level=level, dependency=dependency)
                 for row in rows for dependency in own]  # fmt: skip
        places = [[replace(cell, runtime=name) for name in runtimes] for cell in blank]
        rows_of_cells = tuple(
            tuple(BoardCell(c, tuple(history.get(c, ()))) for c in row) for row in places
        )
        sections.append(Section(plugin, version, level, rows_of_cells))
    return Board(tuple(sections), tuple(runtimes), max(each.date for each in records))


def _runtime(name: str) -> tuple[int, str]:
    known = list(RUNTIMES)
    return (known.index(name) if name in known else len(known), name)


def _at(section: tuple[str, str, str]) -> tuple[str, Version, int]:
    plugin, version, level = section
    return plugin, Version(version), LEVELS.index(level)


def _row(row: tuple[str, str, str]) -> tuple[Version, tuple[tuple[int, str], ...], list[int]]:
    core, build, python = row
    return Version(core), _build(build), [int(part) for part in python.split(".")]


def _build(tag: str) -> tuple[tuple[int, str], ...]:
    """A build tag begins with a number, if there is one."""
    digits = tag[: len(tag) - len(tag.lstrip("0123456789"))]
    return ((int(digits), tag[len(digits) :]),) if digits else ()
