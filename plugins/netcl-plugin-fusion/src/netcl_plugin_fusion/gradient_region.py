"""The gradient of a region as a region, and that of a primitive as a primitive.

So a gradient is planned, run and differentiated as everything else is, to any order. What a
primitive's author wrote as its backward is what is differentiated, and the derivative with
respect to its result goes on through that backward again: nobody's rule for a kink is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, final
from weakref import WeakKeyDictionary

from netcl_core.autograd import AutogradPrimitive
from netcl_core.inspect.expressions import (
    GRAD,
    OUT,
    Apply,
    Choices,
    Expr,
    Name,
    Parsed,
    substitute,
    walk,
)
from netcl_core.inspect.sources import (
    ADDED,
    SAME,
    PrimitiveStep,
    Ref,
    Region,
    Types,
    differentiable,
)
from netcl_plugin_fusion.derivative import derivative, times

#: The gradients of each primitive so far, by number of inputs, words, and input.
_known: Final[
    WeakKeyDictionary[AutogradPrimitive, dict[tuple[int, Choices, int], AutogradPrimitive]]
] = WeakKeyDictionary()


def gradient_primitive(
    record: AutogradPrimitive, arity: int, choices: Choices, index: int
) -> AutogradPrimitive:
    """The gradient of a primitive's input as a primitive of `(*inputs, grad, out)`.

    Its own backward is the derivative of that expression; an input that the expression does not
    name has none. Equal requests get the same record.
    """
    known = _known.setdefault(record, {})
    gradient = known.get((arity, choices, index))
    if gradient is None:
        parsed = record.parsed(arity, choices)
        differentiated = _differentiated(f"{record.name}_grad{index}", parsed, index, choices)
        gradient = known.setdefault((arity, choices, index), differentiated)
    return gradient


def _differentiated(name: str, parsed: Parsed, index: int, choices: Choices) -> AutogradPrimitive:
    """Its operands `grad` and `out` get names that no author can write: they are no C."""
    assert parsed.backward is not None  # it is differentiable
    tree = parsed.backward[index]
    assert tree is not None  # with respect to this input
    count = len(parsed.inputs)
    upstream, result = Name(f"{GRAD}'{count}"), Name(f"{OUT}'{count}")
    tree = substitute(tree, {GRAD: upstream, OUT: result})
    names = (*parsed.inputs, upstream.id, result.id)
    used = {upstream.id, *(node.id for node in walk(tree) if isinstance(node, Name))}
    slopes = [_scaled(derivative(tree, wrt)) if wrt in used else None for wrt in names]
    return AutogradPrimitive.of_trees(
        name, Parsed(names, tree, tuple(slopes), "same", False), choices
    )


@lru_cache(maxsize=1024)
def with_gradients(region: Region) -> Region:
    """The region of one op, which has no gradients, with those that follow from its expression."""
    (step,) = region.steps
    tree, names = step.parsed.forward, step.parsed.inputs
    renamed = {name: Name(f"{name}'") for name in names}  # which no author can write
    tree = substitute(tree, renamed)
    slopes = tuple(_scaled(derivative(tree, name.id)) for name in renamed.values())
    parsed = Parsed(tuple(name.id for name in renamed.values()), tree, slopes, "same", False)
    primitive = AutogradPrimitive.of_trees(step.primitive.name, parsed, step.choices)
    return replace(region, steps=(replace(step, primitive=primitive),))


def _scaled(slope: Expr) -> Expr:
    """A slope times the upstream gradient; where it selects, so does the product.

    What stands on the side that is not taken, an infinity say, then does no harm.
    """
    if isinstance(slope, Apply) and slope.op == "?:":
        condition, first, second = slope.args
        return Apply("?:", (condition, _scaled(first), _scaled(second)))
    return times(Name(GRAD), slope)


@final
@dataclass(frozen=True, slots=True)
class GradientRegion:
    """The gradients of a region's inputs.

    Attributes:
        region: Its inputs are those of the region, then the gradients that are given, in order.
        results: The inputs whose gradients its outputs are.
        passes: The inputs whose gradient is one that was given: `(input, output)`.
    """

    region: Region
    results: tuple[int, ...]
    passes: tuple[tuple[int, int], ...]


def gradient_region(
    region: Region, types: Types, needs: Sequence[bool], given: Sequence[bool]
) -> GradientRegion:
    """The region that computes the gradients of the inputs that need one.

    `given` says which outputs have a gradient.
    """
    builder = _Gradients(region, types, differentiable(region, types, needs))
    outputs = [j for j, is_given in enumerate(given) if is_given]
    for place, j in enumerate(outputs, start=region.inputs):
        builder.add(region.outputs[j], ("in", place))
    for k in reversed(range(len(region.steps))):
        builder.backward(k)
    totals = {i: builder.total(("in", i)) for i in range(region.inputs) if builder.has(("in", i))}
    passes = {i: outputs[p - region.inputs] for i, (kind, p) in totals.items() if kind == "in"}
    results = tuple(i for i in totals if i not in passes)
    steps, refs = _live(builder.steps, [totals[i] for i in results])
    gradients = Region(region.inputs + len(outputs), region.scalars, steps, refs)
    return GradientRegion(gradients, results, tuple(passes.items()))


class _Gradients:
    """A region's steps, and behind them those of its gradients."""

    def __init__(self, region: Region, types: Types, wanted: set[Ref]) -> None:
        self.region = region
        self.types = types
        self.steps = list(region.steps)
        self.dtypes = {("in", i): dtype for i, dtype in enumerate(types.inputs)}
        self.dtypes |= {("step", k): dtype for k, dtype in enumerate(types.dtypes)}
        self.sums: dict[Ref, list[Ref]] = {ref: [] for ref in wanted}

    def has(self, ref: Ref) -> bool:
        """Whether a value has a gradient."""
        return bool(self.sums.get(ref))

    def add(self, ref: Ref, gradient: Ref) -> None:
        """Note a term of a value's gradient."""
        if ref in self.sums:
            self.sums[ref].append(gradient)

    def total(self, ref: Ref) -> Ref:
        """The sum of the terms."""
        first, *rest = self.sums[ref]
        for term in rest:
            first = self._step(PrimitiveStep(ADDED, (first, term)))
        return first

    def _step(self, step: PrimitiveStep) -> Ref:
        self.steps.append(step)
        return "step", len(self.steps) - 1

    def backward(self, k: int) -> None:
        """Hand the gradient of a step on to its operands."""
        if not self.has(("step", k)):
            return
        step, grad = self.region.steps[k], self.total(("step", k))
        trees = step.parsed.backward
        assert trees is not None  # else it would have no gradient
        for i, (ref, tree) in enumerate(zip(step.operands, trees, strict=True)):
            if ref not in self.sums or tree is None:
                continue
            part = grad if tree == Name(GRAD) else self._part(k, i, grad)
            if self.dtypes[ref] != self.types.dtypes[k]:
                part = self._step(PrimitiveStep(SAME, (part,), cast=self.dtypes[ref]))
            self.add(ref, part)

    def _part(self, k: int, i: int, grad: Ref) -> Ref:
        step = self.region.steps[k]
        record = gradient_primitive(step.primitive, len(step.operands), step.choices, i)
        operands = (*step.operands, grad, ("step", k))
        return self._step(PrimitiveStep(record, operands, step.choices, step.attrs))


def _live(
    steps: Sequence[PrimitiveStep], outputs: Sequence[Ref]
) -> tuple[tuple[PrimitiveStep, ...], tuple[Ref, ...]]:
    """The steps that some outputs need, numbered anew."""
    needed = {i for kind, i in outputs if kind == "step"}
    for k in reversed(range(len(steps))):
        if k in needed:
            needed |= {i for kind, i in steps[k].operands if kind == "step"}
    numbers = {k: n for n, k in enumerate(sorted(needed))}

    def moved(refs: Sequence[Ref]) -> tuple[Ref, ...]:
        return tuple((kind, numbers[i] if kind == "step" else i) for kind, i in refs)

    kept = (steps[k] for k in numbers)
    renumbered = (replace(step, operands=moved(step.operands)) for step in kept)
    return tuple(renumbered), moved(outputs)
