"""Tables and text on stdout: made to fit a terminal, and 80 columns in a pipe.

Rich would do the same and takes longer to import than a whole `netcl plugins list`.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

_GAP: Final = "  "
_USUAL_WIDTH: Final = 80
_NARROWEST: Final = 8  # what a folded column keeps at least
_LONG_NAME: Final = 30  # up to this a word widens its column in a pipe; longer ones stick out
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], cut: Sequence[str] = ()
) -> None:
    """Print rows below a header, if it has names; the columns in `cut` fold to fit.

    In a pipe they fold between words only: a name or a path stays whole, and may be searched for.
    """
    flat = [[_clean(cell) for cell in row] for row in (header, *rows)]
    widths = [max(_width(row[i]) for row in flat) for i in range(len(header))]
    terminal = sys.stdout.isatty()
    folds = [name in cut for name in header]
    columns = zip(*flat, strict=True)
    least = [_NARROWEST if terminal else _longest_word(column) for column in columns]
    widths = _fitting(widths, folds, least, _columns())
    bold = terminal and _takes_styles()
    for number, row in enumerate(flat):
        for line in _lines(row, widths, terminal) if number or any(header) else ():
            print(f"{_BOLD}{line}{_PLAIN}" if bold and not number else line)


def _takes_styles() -> bool:
    """Whether a terminal may be sent bold text: not if NO_COLOR is set or TERM is `dumb`."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _clean(cell: str) -> str:
    """One line without control characters, which could steer the terminal."""
    words = " ".join(cell.split())
    return words if words.isprintable() else "".join(c for c in words if c.isprintable())


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return _USUAL_WIDTH


def _longest_word(column: Sequence[str]) -> int:
    longest = max(_width(word) for cell in column for word in cell.split(" "))
    return max(_NARROWEST, min(longest, _LONG_NAME))


def _fitting(
    widths: Sequence[int], cut: Sequence[bool], least: Sequence[int], columns: int
) -> list[int]:
    """Widths that fit: of the columns that may fold, the widest give way first."""
    fitting = list(widths)
    over = sum(fitting) + len(_GAP) * (len(fitting) - 1) - columns
    while over > 0:
        folding = [i for i, may in enumerate(cut) if may and fitting[i] > least[i]]
        if not folding:
            break
        widest = max(folding, key=lambda i: fitting[i])
        fitting[widest] -= 1
        over -= 1
    return fitting


def _lines(row: Sequence[str], widths: Sequence[int], breaks: bool) -> Iterator[str]:
    """The lines of one row: cells that are too wide go on below."""
    cells = [list(_folded(cell, width, breaks)) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(map(len, cells))):
        parts = [cell[number] if number < len(cell) else "" for cell in cells]
        padded = (
            part + " " * (width - _width(part)) for part, width in zip(parts, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip()


def _folded(text: str, width: int, breaks: bool = True) -> Iterator[str]:
    """A text in lines of at most `width` columns, broken at spaces.

    `breaks`: also within words that are wider.
    """
    line = ""
    for word in text.split(" "):
        if _width(f"{line} {word}") <= width and line:
            line = f"{line} {word}"
            continue
        if line:
            yield line
        line = word
        while breaks and _width(line) > width and len(line) > 1:
            end = next(n for n in range(len(line), 0, -1) if _width(line[:n]) <= width or n == 1)
            yield line[:end]
            line = line[end:]
    yield line


def _width(text: str) -> int:
    """The columns that a text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def print_text(text: str) -> None:
    """Print lines; what is wider than the terminal, or 80 columns in a pipe, goes on below."""
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        first, *more = _folded(line.strip(), _columns() - len(indent) - len(_GAP), breaks=False)
        print(f"{indent}{first}".rstrip())
        for part in more:
            print(f"{indent}{_GAP}{part}")


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """A line on a terminal's stderr, as long as the block takes."""
    if not sys.stderr.isatty():
        yield
        return
    print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"\r{' ' * len(text)}\r", end="", file=sys.stderr, flush=True)
