"""What is drawn: boxes of some kinds with ops in them, and the values that go between boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final

#: The kinds of boxes, and what each is called.
KINDS: Final = {
    "region": "fused region",
    "operator": "fused operator",
    "op": "single op",
    "view": "view",
    "argument": "argument",
    "leaf": "leaf, takes a gradient",
    "elsewhere": "recorded elsewhere",
    "above": "made further up",
    "constant": "constant",
    "result": "result",
}


@final
@dataclass(frozen=True, slots=True)
class DrawnOp:
    """One op: the name of its value, how it is computed, and the line that asked for it."""

    value: str
    op: str
    text: str
    dtype: str
    shape: tuple[int, ...]
    source: str


@final
@dataclass(frozen=True, slots=True)
class Edge:
    """A value that goes from one box to another."""

    source: str
    target: str
    value: str
    dtype: str
    shape: tuple[int, ...]


class DrawnBox(Protocol):
    """A box: `kind` is one of KINDS, `remark` stands below its ops."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def ops(self) -> Sequence[DrawnOp]: ...
    @property
    def remark(self) -> str: ...


class Drawing(Protocol):
    """A graph that can be drawn; each box comes after those that it reads from.

    `summary` is what a drawing says at its head, in sentences.
    """

    @property
    def heading(self) -> str: ...
    @property
    def summary(self) -> Sequence[str]: ...
    @property
    def boxes(self) -> Sequence[DrawnBox]: ...
    @property
    def edges(self) -> Sequence[Edge]: ...


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: `1 launch`, `2 launches`."""
    plural = plural or (f"{noun}es" if noun.endswith("h") else f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"
