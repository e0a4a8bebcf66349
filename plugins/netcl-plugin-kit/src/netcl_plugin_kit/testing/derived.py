"""Derived cases: those of an elementwise op or a training pattern whose author gives none.

An op's reference is the record's `reference`, else its own expression on NumPy in float64, so that
the gradient, the dtypes, the devices and fusion are checked and only the formula is taken on trust.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from netcl_plugin_patterns import TrainingPattern

from netcl_core import get_device
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import NetclError
from netcl_core.inspect.expressions import REQUIRED, split_attrs
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.groups import written
from netcl_plugin_kit.testing.reference import evaluate
from netcl_plugin_kit.testing.samples import MILD, SPECIAL, Sampler, normal, uniform

#: How inputs are drawn: the first for which the op is finite. Logarithms want positive numbers,
#: inverse hyperbolic functions some beyond 1 or within it.
_SAMPLERS: Final[Sequence[Sampler]] = (
    normal(),
    uniform(0.1, 3),
    uniform(-0.9, 0.9),
    uniform(1.1, 3),
)
#: With which shape that is found out.
_SHAPE: Final = (1031,)
#: The number of inputs of an op that takes any.
_ARITY: Final = 2


#: Shapes for a training pattern's tensors, all alike.
_GROUP_SHAPES: Final = ((3, 4), (7,), (1,), (0, 3), (1031,), (33, 17))


def derived_cases(record: AutogradPrimitive | TrainingPattern, provider: str) -> list[Case]:
    """A case per choice of an op's words; numbers without a default are 1.

    Of a training pattern one with tensors of one shape. Of several inputs of an op one may
    underflow where another is infinite, and what 0 * inf is then depends on the dtype: such pairs
    are left out.
    """
    if isinstance(record, TrainingPattern):
        return [_of_pattern(record, provider)]
    attrs: Mapping[str, Any] = record.attrs  # type: ignore[assignment]  # a mapping since init
    options = [record.choices.get(name) or [_number(value)] for name, value in attrs.items()]
    return [
        _case(record, {k: v for k, v in zip(attrs, values, strict=True) if v is not None}, provider)
        for values in itertools.product(*options)
    ]


def _of_pattern(record: TrainingPattern, provider: str) -> Case:
    written(record, {})  # which raises where only the author knows the function
    assert record.graph is not None  # else it would have
    inputs = [normal()] * len(record.graph.tensors)
    shapes = [[shape] * len(inputs) for shape in _GROUP_SHAPES]
    return Case(record.name, inputs, shapes=shapes, note="derived", provider=provider)


def _number(default: Any) -> Any:
    return 1.0 if default is REQUIRED else default


def _case(record: AutogradPrimitive, attrs: dict[str, Any], provider: str) -> Case:
    arity = record.arity or _ARITY
    gradients = _gradients(record, arity, attrs)
    case = Case(
        record.name,
        (normal(),) * arity,
        attrs=attrs,
        note="derived",
        differentiable=bool(gradients),
        gradients=gradients,
        specials=SPECIAL if arity == 1 else MILD,
        provider=provider,
    )
    drawn = (replace(case, inputs=(sampler,) * arity) for sampler in _SAMPLERS)
    return next(filter(_is_finite, drawn), case)


def _gradients(record: AutogradPrimitive, arity: int, attrs: Mapping[str, Any]) -> list[int]:
    """The inputs for which the record has an expression."""
    _, choices = split_attrs(record.bind_attrs(attrs))
    parsed = record.parsed(arity, choices)
    trees = () if parsed.result == "bool" else parsed.backward or ()
    return [i for i, tree in enumerate(trees) if tree is not None]


def _is_finite(case: Case) -> bool:
    """Whether the inputs suit the op; if it raises, the checks shall say why."""
    arrays = case.sample([_SHAPE] * len(case.inputs), "float64")
    try:
        values = evaluate(case, arrays, get_device("numpy"), [False] * len(arrays))
    except NetclError:
        return True
    return all(np.isfinite(output).all() for output in values.outputs)
