"""Whether a written gradient and the symbolic one agree, in float64 at random points.

A point says nothing about an input, and is left out, where

- a decision (a comparison, a step of floor, the sign under fabs, ...) falls the other way
  a little to its left or right: a kink, at which a backward may follow a rule of its own;
- a value that the forward or its derivative really uses is not finite: the edge of the
  domain, such as log(0), or an overflow. A branch that is not taken does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, final

import numpy as np
from netcl_plugin_fusion.derivative import ONE, STEPS, ZERO, partials, plus, times

from netcl_core.inspect.data import Array
from netcl_core.inspect.expressions import (
    COMPARISONS,
    LOGICAL,
    MASKS,
    NUMPY_NAMES,
    OUT,
    PREDICATES,
    Apply,
    Block,
    Expr,
    Name,
    folded,
    is_mask,
    walk,
)
from netcl_core.inspect.sources import numpy_source

#: Relative, so loose that constants with the digits of a float32 are no fault.
_TOLERANCE: Final = 1e-6
#: Absolute: what is smaller may have lost its digits by underflow on the way.
_NEGLIGIBLE: Final = 1e-100


@final
class Comparison:
    """Two expressions for the gradient of a forward by one of its names: call `add` with points.

    `names` are all that the expressions read, but for `out`, the forward's value. Of the points
    so far, `drawn`, `compared` and `wrong` say how many; `worst` holds the names' values, the
    written and the symbolic gradient at the worst one (None: all agree).
    """

    def __init__(
        self, forward: Expr, written: Expr, symbolic: Expr, name: str, names: Sequence[str]
    ) -> None:
        self.names = names
        self.drawn = self.compared = self.wrong = 0
        self.worst: tuple[dict[str, float], float, float] | None = None
        self._excess = 1.0
        self._place = names.index(name)
        bound = plus(_spread(symbolic), _spread(written, {OUT: _spread(forward)}))
        usable = _both([_usable(forward), _usable(symbolic)])
        decisions = _decisions([forward, written, symbolic])
        self._gradients = compiled(forward, [written, symbolic, bound, usable], names)
        self._decisions = compiled(forward, decisions, names)

    def add(self, values: Sequence[Array]) -> None:
        """Compare at points, given as one array for each name."""
        with np.errstate(all="ignore"):
            written, symbolic, bound, usable = self._evaluate(self._gradients, values)
            size = np.abs(written) + np.abs(symbolic) + np.where(np.isnan(bound), 0, bound)
            size = np.where(np.isfinite(written), size, np.abs(symbolic))
            allowed = _TOLERANCE * size + _NEGLIGIBLE
            kept = (usable != 0) & np.isfinite(allowed) & self._far_from_kinks(values)
            excess = np.nan_to_num(np.abs(written - symbolic) / allowed, nan=np.inf)
        self._note(values, written, symbolic, np.where(kept, excess, 0), kept)

    def _note(
        self, values: Sequence[Array], written: Array, symbolic: Array, excess: Array, kept: Array
    ) -> None:
        worst = int(excess.argmax())
        self.drawn += excess.size
        self.compared += int(kept.sum())
        self.wrong += int((excess > 1).sum())
        if excess[worst] > self._excess:
            self._excess = float(excess[worst])
            point = {n: float(x[worst]) for n, x in zip(self.names, values, strict=True)}
            self.worst = point, float(written[worst]), float(symbolic[worst])

    def _far_from_kinks(self, values: Sequence[Array]) -> Array:
        """Where all decisions are the same a little to the left and to the right."""
        own = values[self._place]
        step = 1e-6 * np.abs(own) + 1e-9
        here = self._evaluate(self._decisions, values)
        kept = np.ones(own.shape, bool)
        for moved in (own - step, own + step):
            there = [moved if i == self._place else x for i, x in enumerate(values)]
            for one, two in zip(here, self._evaluate(self._decisions, there), strict=True):
                kept &= (one == two) | (np.isnan(one) & np.isnan(two))
        return kept

    def _evaluate(self, function: Callable[..., Any], values: Sequence[Array]) -> list[Array]:
        return [np.broadcast_to(x, values[0].shape) for x in function(*values)]


def compiled(
    forward: Expr, trees: Sequence[Expr], names: Sequence[str], ctype: str = "double"
) -> Callable[..., Any]:
    """The NumPy function of some trees in float64, or in int64 with the `ctype` long."""
    block = Block(())
    scope = {name: block.load(f"in{i}", ctype) for i, name in enumerate(names)}
    scope[OUT] = block.convert(block.build(forward, scope, ctype), ctype)
    roots = [block.convert(block.build(tree, scope, ctype), ctype) for tree in trees]
    space = dict(NUMPY_NAMES)
    exec(numpy_source(block, roots, [f"in{i}" for i in range(len(names))], "values"), space)
    function: Callable[..., Any] = space["values"]
    return function


def _spread(tree: Expr, of_names: Mapping[str, Expr] | None = None) -> Expr:
    """How far rounding may carry the value of a tree: a bound, in units of its relative error.

    Each operation adds its result's magnitude and hands on the spread of its operands
    times its slopes (running error analysis; Higham 2002, chapter 3). Numbers and
    names are exact but for those in `of_names`.
    """
    exact = of_names or {}

    def carried(node: Apply, of: Callable[[Expr], Expr]) -> Expr:
        if node.op in MASKS:
            return ZERO
        if node.op == "?:":
            return Apply("?:", (node.args[0], *map(of, node.args[1:])))
        inner = list(map(of, node.args))
        total: Expr = Apply("fabs", (node,))
        if any(slope != ZERO for slope in inner):
            for partial, slope in zip(partials(node), inner, strict=True):
                total = plus(total, times(Apply("fabs", (partial,)), slope))
        return total

    return folded(
        tree, lambda leaf: exact.get(leaf.id, ZERO) if isinstance(leaf, Name) else ZERO, carried
    )


def _both(conditions: Iterable[Expr]) -> Expr:
    """All conditions; 1 is true."""
    condition: Expr = ONE
    for each in conditions:
        if each != ONE:
            condition = each if condition == ONE else Apply("&&", (condition, each))
    return condition


def _usable(tree: Expr) -> Expr:
    """The condition that every value which a tree uses is finite."""

    def finite(node: Apply, of: Callable[[Expr], Expr]) -> Expr:
        condition, *rest = map(of, node.args)
        if node.op == "?:":
            chosen = ONE if rest == [ONE, ONE] else Apply("?:", (node.args[0], *rest))
            return _both([condition, chosen])
        own = ONE if is_mask(node) else Apply("isfinite", (node,))
        return _both([condition, *rest, own])

    return folded(tree, lambda leaf: ONE, finite)


def _decisions(trees: Sequence[Expr]) -> list[Expr]:
    """What jumps in some trees or in their slopes, as expressions that change there."""
    nodes = {id(node): node for tree in trees for node in walk(tree) if isinstance(node, Apply)}
    decisions = (_decision(node) for node in nodes.values())
    return [decision for decision in decisions if decision is not None]


def _decision(node: Apply) -> Expr | None:
    if node.op in STEPS or node.op in COMPARISONS | PREDICATES:
        return node
    if node.op in {"fabs", "copysign"}:
        return Apply("sign", (node.args[-1],))
    if node.op in {"fmax", "fmin"}:
        return Apply(">", node.args)
    if node.op == "fmod":
        return Apply("trunc", (Apply("/", node.args),))
    if node.op == "?:":
        return Apply("!", node.args[:1])
    return Apply("!", (node,)) if node.op in LOGICAL else None
