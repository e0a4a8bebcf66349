"""How the states of cells are shown: a sign beside each colour, for those who see none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

NOT_RUN: Final = "not_run"


@final
@dataclass(frozen=True, slots=True)
class Sign:
    """A state's sign, the name of its colours, the word for it, and its style on a terminal."""

    sign: str
    tone: str
    word: str
    style: str


#: Green is for cells that ran and passed, and for nothing else.
SIGNS: Final[Mapping[str, Sign]] = {
    "pass": Sign("✓", "good", "passes", "green"),
    "fail": Sign("✗", "bad", "fails", "red"),
    "setup_error": Sign("!", "warn", "setup error", "yellow"),
    "unsupported": Sign("/", "off", "unsupported", "dim"),
    NOT_RUN: Sign("·", "off", "did not run", "dim"),
}
