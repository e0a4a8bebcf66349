"""Tables on stdout: aligned text in a pipe, rich on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from netcl_plugin_tools.matrix.records import Cell, State
from netcl_plugin_tools.matrix.signs import SIGNS


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below a header; the last column takes what is left of a terminal's width."""
    if sys.stdout.isatty():
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in header:
            table.add_column(name, overflow="fold", no_wrap=name != header[-1])
        for row in rows:
            table.add_row(*row)
        Console(markup=False, highlight=False).print(table)
        return
    lines = [[" ".join(cell.split()) for cell in row] for row in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for line in lines:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def print_reasons(found: Sequence[tuple[State, str, Sequence[Cell]]]) -> None:
    """Print why cells are not green: one row per reason, with the first cell that has it."""
    rows = [
        (SIGNS[state].sign, state, str(len(cells)), str(cells[0]), reason)
        for state, reason, cells in found
    ]
    print_table(("", "state", "cells", "first of them", "why"), rows)
