"""`netcl matrix report`: reads the records and writes the board's files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from click import UsageError
from netcl_market.tables import print_text
from netcl_plugin_kit.writing import write_text

from netcl_core.cli import print_json, print_table
from netcl_core.errors import RecordError, message
from netcl_plugin_tools.matrix import exports, pages
from netcl_plugin_tools.matrix.board import Board, board, counts
from netcl_plugin_tools.matrix.records import load
from netcl_plugin_tools.matrix.terminal import print_reasons

#: The file that lists what a report wrote, so that the next replaces that and nothing else.
MARKER: Final = ".netcl-board"


def run(records: Sequence[Path], out: Path, as_json: bool) -> int:
    """Write a report; 0: nothing failed, 1: a cell failed, or a record could not be read."""
    cells, broken = load(*records)
    for error in broken:
        print(f"netcl: passed over: {error}", file=sys.stderr)
    if not cells:
        expected, remedy = "records of cells", "Run `netcl matrix run --records` into it"
        raise RecordError(message(", ".join(map(str, records)), "there is none", expected, remedy))
    shown = board(cells)
    files = dict(_files(shown))
    _write(out, files)
    if as_json:
        print_json({**exports.data(shown), "out": str(out), "files": sorted(files)})
    else:
        _print(shown, out, len(files))
    return 1 if broken or counts(shown.places)["fail"] else 0


def _files(shown: Board) -> Iterator[tuple[str, str]]:
    """(path below the folder, text) of every file."""
    yield from pages.pages(shown)
    yield from pages.styles()
    yield "junit.xml", exports.junit(shown)
    yield "board.md", exports.markdown(shown)
    for plugin, svg in exports.badges(shown):
        yield f"badges/{plugin}.svg", svg


def _write(out: Path, files: Mapping[str, str]) -> None:
    """Write every file and take away what an earlier report wrote and this one does not.

    Raises UsageError, before anything is changed, where a file of somebody else's is in the way.
    """
    earlier = _earlier(out)
    for name in files:
        if name not in earlier and (out / name).exists():
            given = f"{out} holds {name}, which no report wrote"
            remedy = "Name another folder, or empty it"
            raise UsageError(message("--out", given, "a new folder, or a board's", remedy))
    out.mkdir(parents=True, exist_ok=True)
    _note(out, {*earlier, *files})  # an interrupted report is known as one, too
    for name in earlier - files.keys():
        (out / name).unlink(missing_ok=True)
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text("matrix report", path, text)
    _note(out, files)


def _earlier(out: Path) -> set[str]:
    """The files below the folder that an earlier report wrote."""
    try:
        names: list[str] = json.loads((out / MARKER).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return set()
    return {name for name in names if (out / name).resolve().is_relative_to(out.resolve())}


def _note(out: Path, names: Iterable[str]) -> None:
    write_text("matrix report", out / MARKER, json.dumps(sorted(names), indent=1) + "\n")


def _print(shown: Board, out: Path, written: int) -> None:
    print_table(("plugin", "level", *shown.runtimes), exports.summary(shown))
    if ungreen := exports.ungreen(shown):
        print()
        print_reasons(ungreen)
    said = ", ".join(f"{number} {state}" for state, number in counts(shown.places).items())
    print_text(f"\n{said}; {written} files in {out}, the board is index.html")
