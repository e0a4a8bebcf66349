"""Tables and JSON on stdout: aligned text in a pipe, rich on a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

_GAP: Final = "  "


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str] = ()
) -> None:
    """Print rows below a header; on a terminal the columns in `cut` take what is left."""
    if sys.stdout.isatty():
        _print_rich(header, rows, cut)
        return
    flat = [[" ".join(cell.split()) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in flat) for i in range(len(header))]
    for row in flat:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(_GAP.join(cells).rstrip())


def _print_rich(header: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str]) -> None:
    from rich.console import Console  # half of what a whole `netcl plugins list` costs
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, overflow="fold", no_wrap=name not in cut)
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)


def print_json(data: Any) -> None:
    """Print data as indented JSON."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
