"""What a matrix shows: a bar while it runs, and why cells are not green.

The bar has the counts of states, and nothing of it goes into a pipe.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self, final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from netcl_core.cli import print_table
from netcl_plugin_tools.matrix.records import STATES, Cell, CellRecord, State
from netcl_plugin_tools.matrix.signs import SIGNS


@final
class Bar:
    """Shows cells as they begin and end; safe to tell from several threads."""

    def __init__(self, total: int, console: Console | None = None) -> None:
        shown = console or Console(stderr=True)
        self._counts: Counter[str] = Counter()
        self._progress = Progress(
            TextColumn("cells"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[counts]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}", markup=False),
            console=shown,
            disable=not (console or sys.stderr.isatty()),
        )
        self._task = self._progress.add_task("", total=total, counts="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def watch(self, cell: Cell, record: CellRecord | None, kept: bool) -> None:
        """Show that a cell begins, or how it ended."""
        if record is None:
            self._progress.update(self._task, description=str(cell))
            return
        self._counts[record.state] += 1
        counts = " ".join(
            f"[{SIGNS[state].style}]{SIGNS[state].sign} {self._counts[state]}[/]"
            for state in STATES
            if self._counts[state]
        )
        self._progress.update(self._task, advance=1, counts=counts)


def print_reasons(groups: Sequence[tuple[State, str, Sequence[Cell]]]) -> None:
    """Print why cells are not green: one row per reason, with the first cell that has it."""
    rows = [
        (SIGNS[state].sign, state, str(len(cells)), str(cells[0]), reason)
        for state, reason, cells in groups
    ]
    print_table(("", "state", "cells", "first of them", "why"), rows, ("first of them", "why"))
