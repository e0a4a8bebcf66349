"""The static gradient check: a primitive's backward against the derivative of its forward."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
from netcl_plugin_fusion.derivative import derivative, times

from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import PrimitiveError, message
from netcl_core.inspect.data import Array
from netcl_core.inspect.expressions import (
    GRAD,
    OUT,
    REQUIRED,
    Choices,
    Expr,
    Name,
    Number,
    shortened,
    split_attrs,
    to_c,
    walk,
)
from netcl_plugin_kit.testing.agreement import Comparison

#: Points drawn at a time, how often at most, how many are wanted and how many have to remain.
_DRAWN: Final = 1000
_ROUNDS: Final = 10
_WANTED: Final = 400
_LEAST: Final = 100
#: The numbers of inputs that are tried for a primitive that takes any.
_ARITIES: Final = (1, 2, 3)
_LONGEST: Final = 300


@final
@dataclass(frozen=True, slots=True)
class GradientFinding:
    """What is wrong with the gradient of one input of a primitive; `str` makes a readable text.

    `point` is the worst point (inputs, attributes, `grad`), `given` what backward gives there
    and `expected` what the derivative gives. Without a point nothing could be compared,
    and `problem` says why.
    """

    primitive: str
    input: str
    problem: str
    forward: str = ""
    backward: str = ""
    derivative: str = ""
    point: Mapping[str, float] | None = None
    given: float = float("nan")
    expected: float = float("nan")

    def __str__(self) -> str:
        lines = [f"{self.primitive}: {self.problem}"]
        if self.point is not None:
            at = ", ".join(f"{name} = {value:.6g}" for name, value in self.point.items())
            lines += [
                f"    forward     {shortened(self.forward, _LONGEST)}",
                f"    backward    {shortened(self.backward, _LONGEST)}",
                f"    derivative  {shortened(self.derivative, _LONGEST)}",
                f"    worst where {at}: "
                f"backward gives {self.given:.9g}, the derivative {self.expected:.9g}",
            ]
        return "\n".join(lines)


def check_gradient(record: AutogradPrimitive) -> list[GradientFinding]:
    """Compare a primitive's backward with the derivative of its forward; no finding: they agree.

    Every choice of its words is checked, attributes are varied around their defaults (1
    for one that has none), and a primitive of any number of inputs is checked with one to
    three. An input whose gradient is None is not looked at. What cannot be compared is a
    finding too, never a pass.

    Raises PrimitiveError if an expression is wrong in itself.
    """
    if record.backward is None:
        return []
    input_uses = list(uses(record))
    if not input_uses:
        return [GradientFinding(record.name, "", "it takes neither 1, 2 nor 3 inputs; not checked")]
    return [finding for use in input_uses for finding in use.findings()]


def refuse_wrong_gradient(record: AutogradPrimitive) -> None:
    """Raise PrimitiveError with all findings of `check_gradient`, if there are any.

    >>> from netcl_plugin_kit.testing import refuse_wrong_gradient
    >>> square = ag.AutogradPrimitive("square2", lambda x, attrs: f"{x[0]} * {x[0]}",
    ...     lambda x, grad, attrs, out: [f"{x[0]} * {grad}"], arity=1)
    >>> try:
    ...     refuse_wrong_gradient(square)
    ... except nc.errors.PrimitiveError as error:
    ...     print(str(error).partition(" at ")[0])
    square2: the gradient of input 0 (x0) differs from the derivative of the forward

    Args:
        record: The record of an elementwise op.
    """
    findings = check_gradient(record)
    if findings:
        text = "\n".join(map(str, findings))
        remedy = "Correct the expression, or register it without verify=True"
        raise PrimitiveError(message(text, "not registered", "", remedy))


def uses(record: AutogradPrimitive) -> Iterator[Use]:
    """The primitive with every number of inputs and every choice of its words.

    Raises PrimitiveError if an expression is wrong, unless the primitive takes any number.
    """
    table: Mapping[str, Any] = record.attrs  # type: ignore[assignment]  # a mapping since init
    options = [_options(record.choices.get(name), default) for name, default in table.items()]
    arities = _ARITIES if record.arity is None else (record.arity,)
    for arity, values in itertools.product(arities, itertools.product(*options)):
        attrs = dict(zip(table, values, strict=True))
        numbers, choices = split_attrs(attrs)
        if _takes(record, arity, choices):
            yield Use(record, arity, choices, numbers)


def _options(words: Sequence[str] | None, default: Any) -> list[Any]:
    """What an attribute may be: each of its words, absent or a number, a number."""
    if words is not None:
        return list(words)
    if default is None:
        return [None, 1.0]
    return [1.0 if default is REQUIRED else default]


def _takes(record: AutogradPrimitive, arity: int, choices: Choices) -> bool:
    """Whether the callables accept this many inputs; only those of any arity may refuse."""
    try:
        record.parsed(arity, choices)
    except Exception:  # a plugin's callable may raise anything for a number it does not like
        if record.arity is None:
            return False
        raise
    return True


@final
@dataclass(frozen=True, slots=True)
class Use:
    """A primitive with a number of inputs, its words, and the numbers to vary."""

    record: AutogradPrimitive
    arity: int
    choices: Choices
    numbers: Mapping[str, Any]

    def findings(self) -> Iterator[GradientFinding]:
        """What is wrong with the gradients of this use."""
        parsed = self.record.parsed(self.arity, self.choices)
        for name, tree in zip(parsed.inputs, parsed.backward or (), strict=True):
            finding = None if tree is None else self._finding(parsed.forward, name, tree)
            if finding is not None:
                yield finding

    def _finding(self, forward: Expr, name: str, tree: Expr) -> GradientFinding | None:
        try:
            symbolic = times(Name(GRAD), derivative(forward, name))
            comparison = Comparison(forward, tree, symbolic, name, self.names)
            self._compare(comparison, _literals(forward))
            if comparison.compared >= _LEAST:
                return self._difference(forward, name, symbolic, comparison)
            left = f"{comparison.compared} of {comparison.drawn} points"
            reason = f"only {left} have finite values and no kink"
        except PrimitiveError as error:
            reason = str(error).rstrip(".")
        except RecursionError:
            reason = "an expression is nested too deeply"
        return GradientFinding(
            self.record.name, name, f"{self._which(name)} cannot be checked: {reason}"
        )

    def _compare(self, comparison: Comparison, literals: Sequence[float]) -> None:
        """Draw points until enough of them can be compared."""
        random = np.random.default_rng(0)
        while comparison.compared < _WANTED and comparison.drawn < _ROUNDS * _DRAWN:
            data: list[Array] = []
            while len(data) < self.arity:
                data.append(_values(random, literals, data[-1] if data else None))
            data += [_around(random, default) for default in self.numbers.values()]
            comparison.add([*data, random.standard_normal(_DRAWN)])

    def _difference(
        self, forward: Expr, name: str, symbolic: Expr, comparison: Comparison
    ) -> GradientFinding | None:
        if comparison.worst is None:
            return None
        where = f"{comparison.wrong} of {comparison.compared} points"
        return GradientFinding(
            self.record.name,
            name,
            f"{self._which(name)} differs from the derivative of the forward at {where}",
            to_c(forward),
            self._written(name),
            to_c(symbolic),
            *comparison.worst,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All that an expression may read but `out`: inputs, numbers, `grad`."""
        return (*self.record.parsed(self.arity, self.choices).inputs, *self.numbers, GRAD)

    def _which(self, name: str) -> str:
        words = "".join(f", {attr}={value!r}" for attr, value in self.choices)
        return f"the gradient of input {self.names.index(name)} ({name}{words})"

    def _written(self, name: str) -> str:
        """The text of a gradient as its author wrote it, macros and all."""
        assert self.record.backward is not None  # it gave the tree that was compared
        inputs = list(self.names[: self.arity])
        attrs = {attr: dict(self.choices).get(attr, attr) for attr in self.record.attrs}
        return str(self.record.backward(inputs, GRAD, attrs, OUT)[inputs.index(name)])


# -- points ----------------------------------------------------------------------------


def _literals(tree: Expr) -> list[float]:
    """The numbers of an expression, around which its branches may change."""
    literals = {float(node.value) for node in walk(tree) if isinstance(node, Number)}
    return sorted(value for value in literals if np.isfinite(value) and value) or [1.0]


def _values(random: np.random.Generator, literals: Sequence[float], other: Array | None) -> Array:
    """One input: ordinary, in (0, 1), of any magnitude, whole, near a literal or another input."""
    sign = random.choice([-1.0, 1.0], _DRAWN)
    near = sign * 10 ** random.uniform(-3, 0, _DRAWN)
    kinds = (
        random.standard_normal(_DRAWN),
        random.uniform(0, 1, _DRAWN),
        sign * 10 ** random.uniform(-4, 2, _DRAWN),
        random.integers(-3, 4, _DRAWN).astype(float),
        random.choice([*literals, *(-literal for literal in literals)], _DRAWN) * (1 + near),
        near if other is None else other + near,
    )
    return np.asarray(np.choose(random.integers(0, len(kinds), _DRAWN), kinds))


def _around(random: np.random.Generator, default: Any) -> Array:
    """An attribute: its default or up to a factor of 2 away; whole if the default is."""
    if isinstance(default, bool):
        return random.integers(0, 2, _DRAWN).astype(float)
    away = default * 2 ** random.uniform(-1, 1, _DRAWN) if default else random.normal(size=_DRAWN)
    away = np.rint(away) if isinstance(default, int) else away
    return np.where(random.uniform(size=_DRAWN) < 0.25, float(default), away)
