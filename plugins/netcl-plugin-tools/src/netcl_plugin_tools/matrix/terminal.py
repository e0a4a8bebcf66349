"""What a matrix shows: a bar while it runs, and why cells are not green.

The bar has the counts of states, and nothing of it goes into a pipe.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from netcl_core.cli import print_table
from netcl_plugin_tools.matrix.records import STATES, Cell, CellRecord, State, Watch
from netcl_plugin_tools.matrix.signs import SIGNS


@contextmanager
def progress_of_cells(total: int, console: Console | None = None) -> Iterator[Watch]:
    """Show cells as they begin and end, by what this yields; safe to tell from several threads."""
    counts: Counter[str] = Counter()
    with Progress(
        TextColumn("cells"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.description}", markup=False),
        console=console or Console(stderr=True),
        disable=not (console or sys.stderr.isatty()),
    ) as progress:
        task = progress.add_task("", total=total, counts="")

        def watch(cell: Cell, record: CellRecord | None, kept: bool) -> None:
            if record is None:
                progress.update(task, description=str(cell))
                return
            counts[record.state] += 1
            shown = " ".join(
                f"[{SIGNS[state].style}]{SIGNS[state].sign} {counts[state]}[/]"
                for state in STATES
                if counts[state]
            )
            progress.update(task, advance=1, counts=shown)

        yield watch


def print_reasons(groups: Sequence[tuple[State, str, Sequence[Cell]]]) -> None:
    """Print why cells are not green: one row per reason, with the first cell that has it."""
    rows = [
        (SIGNS[state].sign, state, str(len(cells)), str(cells[0]), reason)
        for state, reason, cells in groups
    ]
    print_table(("", "state", "cells", "first of them", "why"), rows, ("first of them", "why"))
