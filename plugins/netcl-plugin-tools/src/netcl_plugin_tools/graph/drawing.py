"""What is drawn: boxes of some kinds with ops in them, and the values that go between boxes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core.inspect.recorded import RegionCall

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


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: `1 launch`, `2 launches`."""
    plural = plural or (f"{noun}es" if noun.endswith("h") else f"{noun}s")
    return f"{number} {noun if number == 1 else plural}"


# -- ops as text -------------------------------------------------------------------------


def op_text(
    name: str,
    call: Any,
    tensors: Sequence[str],
    scalars: Sequence[str],
    attrs: Mapping[str, Any],
) -> str:
    """`name(operands)`, in the order of the op's signature as far as that is known."""
    return f"{name}({', '.join(_operands(call, tensors, scalars, attrs))})"


def _operands(
    call: Any, tensors: Sequence[str], scalars: Sequence[str], attrs: Mapping[str, Any]
) -> list[str]:
    if isinstance(call, RegionCall) and len(call.plan.region.steps) == 1:
        (step,) = call.plan.region.steps
        given = [(tensors if kind == "in" else scalars)[i] for kind, i in step.operands]
        given += [f"{name}={scalars[i]}" for name, i in step.attrs]
        given += [f"{name}={x!r}" for name, x in step.choices if x is not None]
        return given + ([repr(step.cast)] if step.cast else [])
    said = {name: x for name, x in attrs.items() if x is not None and x is not False}
    return [*tensors, *scalars, *(f"{name}={x!r}" for name, x in said.items())]


def number_text(value: Any) -> str:
    """A Python number as an operand."""
    return f"{value:g}" if isinstance(value, float) else repr(value)


def free_prefix(taken: Iterable[str]) -> str:
    """What the names of computed values begin with, so that none with a number is taken."""
    prefix, taken = "t", set(taken)
    while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in taken):
        prefix += "_"
    return prefix
