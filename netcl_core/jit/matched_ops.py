"""Graphs of ops: what a training pattern matches, and what is captured from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from netcl_core.errors import RegistrationError, coded, message


@final
@dataclass(frozen=True, slots=True)
class Captured:
    """In the place of a number or an attribute's value: the planner gets what it is by this name.

    >>> print(ag.MatchedOp("clamp", ("x",), (("min", 0.0), ("max", ag.Captured("top")))))
    clamp(x, min=0.0, max=top)
    """

    name: str

    def __post_init__(self) -> None:
        if not _is_name(self.name):
            raise wrong("Captured", f"the name {self.name!r}", "an identifier")

    def __str__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True)
class MatchedOp:
    """One op of a group, and what it reads: a graph of these says what a pattern matches.

    Args:
        op: The op's name. An op that is a function of other ops (`layer_norm`, `mse_loss`) is
            one op here, whoever computes it.
        inputs: Its operands in the order of its signature, each one of: another MatchedOp of
            the group; a name for a tensor that comes from outside; a number, which the operand
            has to be; Captured(...) for any Python number; None for an operand that is absent.
            Those at the end that are left out have to be absent. Operands of a commutative op
            (`AutogradPrimitive.commutative`: add, mul, maximum, minimum, eq, ne) match either
            way round.
        attrs: (name, value) of the attributes that it has to have, or (name, Captured(...));
            others may have any value.
        result: Which of the op's results is meant.

    One name, or one MatchedOp, in two places: one value. Two names: values that may differ, or not.

    Example:
        >>> print(ag.MatchedOp("gelu", (ag.MatchedOp("add", ("x", "bias")),)))
        gelu(add(x, bias))
    """

    op: str
    inputs: tuple[MatchedOp | str | float | Captured | None, ...]
    attrs: tuple[tuple[str, Any], ...] = ()
    result: int = 0

    def __post_init__(self) -> None:
        inputs, attrs = self.inputs, self.attrs
        fine = _is_name(self.op) and isinstance(inputs, tuple) and isinstance(attrs, tuple)
        fine = fine and all(map(_is_input, inputs)) and type(self.result) is int
        if not fine or not all(isinstance(each, tuple) and len(each) == 2 for each in attrs):
            given = f"the op {self.op!r} of {inputs!r:.80} with {attrs!r:.80}"
            expected = "a name, a tuple of ops, names and numbers, and a tuple of (name, value)"
            raise wrong("MatchedOp", given, expected)

    def __str__(self) -> str:
        shown = [
            f"{name}={value}" if isinstance(value, Captured) else f"{name}={value!r}"
            for name, value in self.attrs
        ]
        which = f"[{self.result}]" if self.result else ""
        return f"{self.op}({', '.join([*map(str, self.inputs), *shown])}){which}"

    @property
    def ops(self) -> list[MatchedOp]:
        """The ops of the graph, each object once, operands first."""
        found: dict[int, MatchedOp] = {}
        for each in self.inputs:
            if isinstance(each, MatchedOp):
                found |= {id(op): op for op in each.ops}
        found[id(self)] = self
        return list(found.values())

    @property
    def names(self) -> list[str]:
        """The names of what is captured, each once, in the order in which they are read."""
        found: list[str] = []
        for each in self.inputs:
            if isinstance(each, MatchedOp):
                found += each.names
            elif isinstance(each, (str, Captured)):
                found.append(str(each))
        found += [value.name for _, value in self.attrs if isinstance(value, Captured)]
        return list(dict.fromkeys(found))


@final
@dataclass(frozen=True, slots=True)
class Graph:
    """The ops of a group with its results, each of which is the value of one of them.

    >>> sine = ag.MatchedOp("sin", ("x",))
    >>> print(Graph((ag.MatchedOp("square", (sine,)), sine)))
    (square(sin(x)), sin(x))
    """

    results: tuple[MatchedOp, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.results))
        return shown if len(self.results) == 1 else f"({shown})"

    @property
    def ops(self) -> list[MatchedOp]:
        """The ops, each object once, operands first."""
        return list({id(op): op for each in self.results for op in each.ops}.values())

    @property
    def names(self) -> list[str]:
        """The names of what is captured, each once, in the order in which they are read."""
        return list(dict.fromkeys(name for each in self.results for name in each.names))

    @property
    def tensors(self) -> list[str]:
        """Those of tensors; the others are numbers and attributes."""
        found = {each for op in self.ops for each in op.inputs if isinstance(each, str)}
        return [name for name in self.names if name in found]


def _is_input(x: Any) -> bool:
    if isinstance(x, str):
        return x.isidentifier()
    return x is None or isinstance(x, (MatchedOp, Captured)) or type(x) in (int, float)


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and text.isidentifier()


def wrong(who: str, given: str, expected: str) -> RegistrationError:
    """What is raised for a field of a pattern that cannot be what it should be."""
    return coded("NP308", RegistrationError(message(who, given, expected)))
