"""`netcl matrix report`: reads the records and writes the board's files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from netcl_core.errors import RecordError, message
from netcl_plugin_workbench.matrix import exports, pages
from netcl_plugin_workbench.matrix.board import Board, board, counts
from netcl_plugin_workbench.matrix.records import load
from netcl_plugin_workbench.matrix.tables import print_reasons, print_table


def run(records: Path, out: Path, as_json: bool) -> int:
    """Write a report; 0: nothing failed, 1: a cell failed."""
    found = load(records)
    if not found:
        expected, remedy = "records of cells", "Run `netcl matrix run --records` into it"
        raise RecordError(message(str(records), "there is none", expected, remedy))
    shown = board(found)
    written = sorted(_write(out, shown))
    if as_json:
        print(json.dumps({**exports.data(shown), "out": str(out), "files": written}, indent=2))
    else:
        _print(shown, out, len(written))
    return 1 if counts(shown.places)["fail"] else 0


def _write(out: Path, shown: Board) -> Iterator[str]:
    """Write every file; yields their paths below the folder."""
    files = [
        *pages.pages(shown),
        *pages.styles(),
        ("junit.xml", exports.junit(shown)),
        ("board.md", exports.markdown(shown)),
        *((f"badges/{plugin}.svg", svg) for plugin, svg in exports.badges(shown)),
    ]
    for name, text in files:
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        yield name


def _print(shown: Board, out: Path, written: int) -> None:
    print_table(("plugin", "level", *shown.runtimes), exports.summary(shown))
    if found := exports.ungreen(shown):
        print()
        print_reasons(found)
    said = ", ".join(f"{number} {state}" for state, number in counts(shown.places).items())
    print(f"\n{said}; {written} files in {out}, the board is index.html")
