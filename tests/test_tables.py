"""Tables: aligned in a pipe, folded into a terminal's width, harmless whatever is in a cell."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_market import tables

ROOT = Path(__file__).resolve().parent.parent
HEADER = ("plugin", "why")
ROWS = [("one", "a long reason with several words"), ("another", "short"), ("x", "")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let stdout be a terminal of some columns."""

    def be(columns: int) -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        monkeypatch.setattr(tables, "_columns", lambda: columns)
        monkeypatch.setenv("TERM", "dumb")

    return be


def test_a_pipe_gets_a_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_table(HEADER, [("a\nb", "x" * 300), ("c", "d")], ("why",))
    assert capsys.readouterr().out == f"plugin  why\na b     {'x' * 300}\nc       d\n"


def test_a_terminal_folds(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(28)
    tables.print_table(HEADER, ROWS, ("why",))
    assert capsys.readouterr().out.splitlines() == [
        "plugin   why",
        "one      a long reason with",
        "         several words",
        "another  short",
        "x",
    ]


def test_the_widest_gives_way_and_nothing_below_the_least(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(1)
    tables.print_table(("a", "b"), [("fixed-and-long", "0123456789abcdef")], ("b",))
    assert capsys.readouterr().out.splitlines() == [
        "a               b",
        "fixed-and-long  01234567",
        "                89abcdef",
    ]
    assert tables._fitting([4, 30, 20], [False, True, True], [8, 8, 8], 40) == [4, 16, 16]
    assert tables._fitting([4, 30], [False, False], [8, 8], 10) == [4, 30]


def test_control_characters_do_not_reach_a_terminal(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(80)
    tables.print_table(("a",), [("x\x1b[31mred\x07\x9b",)])
    assert capsys.readouterr().out == "a\nx[31mred\n"


def test_wide_and_combining_characters(
    terminal: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(80)
    tables.print_table(("a", "b"), [("漢字", "1"), ("e\u0301e", "2")])
    assert capsys.readouterr().out.splitlines() == ["a     b", "漢字  1", "e\u0301e    2"]
    assert list(tables._folded("漢字漢字", 5)) == ["漢字", "漢字"]
    assert list(tables._folded("漢", 1)) == ["漢"]  # there is no narrower way


@settings(deadline=None)
@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])), st.integers(1, 12))
def test_folding_loses_nothing(text: str, width: int) -> None:
    cell = tables._clean(text)
    lines = list(tables._folded(cell, width))
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == cell.replace(" ", "")


@pytest.mark.parametrize(
    ("variables", "bold"),
    [({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1"}, False), ({}, False)],
)
def test_the_header_is_bold_where_that_is_wanted(variables: dict[str, str], bold: bool) -> None:
    """On a real pseudo-terminal of 30 columns."""
    controller, child_end = pty.openpty()
    fcntl.ioctl(child_end, termios.TIOCSWINSZ, struct.pack("HHHH", 10, 30, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in {"TERM", "NO_COLOR"}}
    code = f"from netcl_market.tables import print_table; print_table({HEADER}, {ROWS}, ('why',))"
    environment = {**kept, **({"TERM": "xterm"} if variables else {}), **variables}
    subprocess.run(
        [sys.executable, "-c", code],
        stdout=child_end,
        env={**environment, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    os.close(child_end)
    text = os.read(controller, 65536).decode()
    os.close(controller)
    lines = text.splitlines()
    assert lines[0] == ("\x1b[1mplugin   why\x1b[0m" if bold else "plugin   why")
    assert lines[1:3] == ["one      a long reason with", "         several words"]


def test_in_a_pipe_a_long_cell_is_a_paragraph(capsys: pytest.CaptureFixture[str]) -> None:
    """80 columns; a word, such as a path, stays whole and widens its own line alone."""
    words, path = "word " * 120, "/a" * 60
    tables.print_table(("plugin", "why", "n"), [("one", words, "1"), ("two", path, "2")], ("why",))
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if path not in line) <= 80
    assert sum("word" in line for line in lines) > 5 and path in lines[-1]
    assert lines[1].startswith("one     word word") and lines[1].endswith("  1")
    tables.print_text(f"first\n  {words}")
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "first" and max(map(len, lines)) <= 80 and lines[1].startswith("    word")
    tables.print_table(("plugin", "why"), [("one", words)])  # which does not fold at all
    assert words.strip() in capsys.readouterr().out
