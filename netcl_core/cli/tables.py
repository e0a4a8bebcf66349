"""Tables and JSON on stdout; a market makes tables fit a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from netcl_core.market import market_module


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str] = ()
) -> None:
    """Print rows below a header, if it has names; the columns in `cut` may fold to fit."""
    tables = market_module("tables")
    if tables is not None:
        tables.print_table(header, rows, cut)
        return
    clean = [["".join(filter(str.isprintable, cell)) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    for row in clean if any(header) else clean[1:]:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def print_json(data: Any) -> None:
    """Print data as indented JSON."""
    print(json.dumps(data, indent=2, ensure_ascii=False))
