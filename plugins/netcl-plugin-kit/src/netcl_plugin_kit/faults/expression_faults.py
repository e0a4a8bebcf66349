"""Faults: wrong forwards, backwards and result dtypes of an elementwise op, one change in each.

Every fault is one change in one expression. A change after which the op is the same
function is no fault and is left out, by this rule: forward and gradients agree to a
relative 1e-9 at every one of 10,000 points in float64 (of a forward that gives bools,
whether they are true), zeros, ties, infinities and NaN among them; a result dtype is the
same if it is for every use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import DtypeError
from netcl_core.inspect.data import Array
from netcl_core.inspect.expressions import (
    BITWISE,
    COMPARISONS,
    FUNCTIONS,
    GRAD,
    RESULTS,
    Apply,
    Expr,
    Name,
    Number,
    to_c,
    walk,
)
from netcl_plugin_kit.testing.agreement import compiled
from netcl_plugin_kit.testing.verification import Use, uses

_POINTS: Final = 10_000
_SAME: Final = 1e-9
#: An expression of more parts is long, and so many of these are changed.
_LONG: Final = 136
_OF_LONG: Final = 8
#: What the wrong factor is: little, so that a loose comparison does not notice it.
FACTOR: Final = 1.01
_OTHER: Final = {"+": "-", "-": "+", "*": "/", "/": "*"}
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
Put: TypeAlias = Callable[[Expr], Expr]


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """A seeded fault of an op: its kind, what was changed, and the record that has it."""

    op: str
    kind: str
    text: str
    record: Any


def expression_faults(record: AutogradPrimitive) -> Iterator[Fault]:
    """Every fault of a primitive's expressions, then those of its result's dtype."""
    for use in uses(record):
        yield from _faults_of_use(use)
    yield from _dtype_faults(record)


def _faults_of_use(use: Use) -> Iterator[Fault]:
    parsed = use.record.parsed(use.arity, use.choices)
    gradients = list(parsed.backward or ())
    same = _Sameness(use)
    for place, tree in (
        (place, tree)
        for place, tree in [(None, parsed.forward), *enumerate(gradients)]
        if tree is not None
    ):
        others = [] if place is None else [g for i, g in enumerate(gradients) if i != place and g]
        seen = {to_c(tree)}
        for kind, wrong in _changes(tree, others):
            text = to_c(wrong)
            if text not in seen and not same(place, tree, wrong):
                yield _fault(use, kind, place, text)
            seen.add(text)


def _fault(use: Use, kind: str, place: int | None, text: str) -> Fault:
    """The record whose forward, or gradient of input `place`, is this text in this use."""
    record, parsed = use.record, use.record.parsed(use.arity, use.choices)
    words = dict(use.choices)

    def meant(args: Sequence[str], attrs: Mapping[str, Any]) -> bool:
        return len(args) == use.arity and all(attrs[name] == word for name, word in words.items())

    def forward(args: list[str], attrs: dict[str, Any]) -> str:
        return text if place is None and meant(args, attrs) else record.forward(args, attrs)

    def backward(args: list[str], grad: str, attrs: dict[str, Any], out: str) -> Any:
        assert record.backward is not None  # else it is not differentiable, see below
        right = list(record.backward(args, grad, attrs, out))
        if place is not None and meant(args, attrs):
            right[place] = text
        return right

    what = "forward" if place is None else f"gradient of {parsed.inputs[place]}"
    chosen = "".join(f", {name}={word!r}" for name, word in words.items())
    wrong = replace(
        record,
        forward=forward,
        backward=None if record.backward is None else backward,
        result=record.result or parsed.result,
    )
    return Fault(record.name, kind, f"{what}{chosen}: {text}", wrong)


def _dtype_faults(record: AutogradPrimitive) -> Iterator[Fault]:
    """Another rule for the result's dtype."""
    rules = {use.record.parsed(use.arity, use.choices).result for use in uses(record)}
    for other in RESULTS:
        if rules and rules != {other}:
            text = f"result dtype {other!r} in place of {' and '.join(sorted(rules))!r}"
            yield Fault(record.name, "dtype rule", text, replace(record, result=other))


# -- changes ---------------------------------------------------------------------------


def _changes(tree: Expr, others: Sequence[Expr]) -> Iterator[tuple[str, Expr]]:
    """Kinds of faults with the wrong trees; `others` are the gradients of the other inputs."""
    yield "sign", Apply("neg", (tree,))
    yield "factor", Apply("*", (Number(FACTOR), tree))
    yield from (("other input's gradient", other) for other in others)
    for node, put in _some(list(_places(tree))):
        if isinstance(node, Number):
            yield "constant", put(Number(node.value * FACTOR + 0.01))
        elif node == Name(GRAD):
            yield "upstream gradient missing", put(Number(1))
        elif isinstance(node, Apply):
            yield from ((kind, put(wrong)) for kind, wrong in _spoiled(node))


def _some(places: list[tuple[Expr, Put]]) -> list[tuple[Expr, Put]]:
    """All places of an expression; of a long one a few, spread evenly, as each run is dear."""
    if len(places) <= _LONG:
        return places
    return [places[i * len(places) // _OF_LONG] for i in range(_OF_LONG)]


def _spoiled(node: Apply) -> Iterator[tuple[str, Expr]]:
    first, *rest = node.args
    if node.op in _OTHER:
        yield from (("term missing", arg) for arg in node.args)
        yield "other operator", Apply(_OTHER[node.op], node.args)
    if node.op in _OTHER.keys() | COMPARISONS or len(node.args) == 2:
        yield "operands swapped", Apply(node.op, node.args[::-1])
    if node.op == "?:":
        yield "branch", Apply("?:", (first, rest[1], rest[0]))
        yield from (("branch", branch) for branch in rest)
    if node.op in FUNCTIONS:
        yield "function missing", first


def _places(tree: Expr) -> Iterator[tuple[Expr, Put]]:
    """Every subtree, and how to put another one in its place."""
    yield tree, lambda new: new
    for i, arg in enumerate(tree.args if isinstance(tree, Apply) else ()):
        for node, put in _places(arg):
            yield node, _within(tree, i, put)


def _within(tree: Expr, place: int, put: Put) -> Put:
    assert isinstance(tree, Apply)  # it has an argument there
    args = tree.args
    return lambda new: Apply(tree.op, (*args[:place], put(new), *args[place + 1 :]))


# -- the same function -----------------------------------------------------------------


@final
class _Sameness:
    """Whether a change leaves the function as it was, by the rule on top of this file."""

    def __init__(self, use: Use) -> None:
        self.use = use
        self.parsed = use.record.parsed(use.arity, use.choices)
        self.points = _points(use, self.parsed.forward)
        self.ctype = "double"
        if any(
            isinstance(node, Apply) and node.op in BITWISE for node in walk(self.parsed.forward)
        ):
            self.ctype = "long"
            with np.errstate(all="ignore"):
                self.points = [np.nan_to_num(point).astype(np.int64) for point in self.points]
        self._right: dict[int | None, Array] = {}

    def __call__(self, place: int | None, right: Expr, wrong: Expr) -> bool:
        try:
            actual = self._values(wrong)
        except DtypeError:  # no arithmetic of integers, which is noticed
            return False
        wanted = self._right.get(place)
        if wanted is None:
            wanted = self._right[place] = self._values(right)
        if place is None and self.parsed.result == "bool":
            return bool(((actual != 0) == (wanted != 0)).all())
        actual, wanted = actual.astype(float), wanted.astype(float)
        with np.errstate(all="ignore"):
            close = np.abs(actual - wanted) <= _SAME * (np.abs(actual) + np.abs(wanted))
        alike = close | (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
        return bool(alike.all())

    def _values(self, tree: Expr) -> Array:
        with np.errstate(all="ignore"):
            (values,) = compiled(self.parsed.forward, [tree], self.use.names, self.ctype)(
                *self.points
            )
        return np.asarray(np.broadcast_to(values, (_POINTS,)))


def _points(use: Use, forward: Expr) -> list[Array]:
    """Inputs of every magnitude, ties and special values; attributes around their defaults."""
    random = np.random.default_rng(7)
    literals = [float(node.value) for node in walk(forward) if isinstance(node, Number)]
    data: list[Array] = []
    for _ in range(use.arity):
        kinds = [
            random.standard_normal(_POINTS),
            random.uniform(0, 1, _POINTS),
            random.choice([-1.0, 1.0], _POINTS) * 10 ** random.uniform(-4, 2, _POINTS),
            random.integers(-3, 4, _POINTS).astype(float),
            random.choice([*literals, *_SPECIAL], _POINTS),
            data[-1] if data else random.uniform(-40, 40, _POINTS),
        ]
        data.append(np.asarray(np.choose(random.integers(0, len(kinds), _POINTS), kinds)))
    for default in use.numbers.values():
        away = 2 ** random.uniform(-1, 1, _POINTS)
        data.append(default * away if not isinstance(default, bool) else np.rint(away - 0.5))
    return [*data, random.uniform(0.5, 2, _POINTS) * random.choice([-1.0, 1.0], _POINTS)]
