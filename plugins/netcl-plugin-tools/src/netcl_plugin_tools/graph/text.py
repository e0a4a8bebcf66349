"""Text in a drawing: how wide it is at most, and how it is cut or folded to fit."""

from __future__ import annotations

import textwrap
import unicodedata
from typing import Final

#: Width of a character of a fixed-width font, in parts of its size; common fonts have 0.55 to 0.61.
_ADVANCE: Final = 0.62


def width(text: str, size: float) -> float:
    """How wide a line is at most, in the unit of the font's size."""
    return columns(text) * size * _ADVANCE


def columns(text: str) -> int:
    """How many cells of a fixed-width font a line takes; wide characters take two."""
    return sum(1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def shorten(text: str, limit: int) -> str:
    """A line of at most `limit` cells, cut with an ellipsis if need be."""
    if columns(text) <= limit:
        return text
    kept = text
    while columns(kept) > limit - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def fold(text: str, limit: int) -> list[str]:
    """A text in lines of at most `limit` cells."""
    return [shorten(line, limit) for line in textwrap.wrap(text, limit)]


def clean(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in text)
