"""An op as a line of text: its name, and what it was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netcl_core.inspect.recorded import RegionCall


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
