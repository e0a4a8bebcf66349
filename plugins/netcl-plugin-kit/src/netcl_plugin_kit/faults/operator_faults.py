"""Faults of structured ops: wrappers that spoil what an op gives or the gradients it passes on.

An operator's own backward and reference are wrapped; a composite has none, so its operands
and its result are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Tensor
from netcl_core.autograd import AutogradPrimitive, Operator, Spread, apply_op
from netcl_core.inspect.sources import primitive_function
from netcl_plugin_kit.faults.expression_faults import FACTOR, Fault
from netcl_plugin_kit.testing.samples import is_floating

#: What a gradient is multiplied with, by the kind of fault.
_FACTORS: Final = {"gradient factor": FACTOR, "gradient sign": -1.0}
Change = Callable[[list[Any]], Sequence[Any]]


def _product(args: list[str], attrs: dict[str, Any]) -> str:
    return f"{args[0]} * {attrs['factor']}"


#: A record of the kit's own: faults need no plugin but the one that they are seeded in.
_scale: Final = primitive_function(
    AutogradPrimitive(
        "seeded_factor",
        _product,
        lambda args, grad, attrs, out: [_product([grad], attrs)],
        1,
        attrs=("factor",),
    )
)


def operator_faults(record: Operator, inputs: int) -> Iterator[Fault]:
    """Every fault of a structured op that is called with this many tensors.

    Whether a fault changes anything is only known when it runs.
    """
    changes = _changes(inputs)
    if record.function is None:
        if record.backward is not None:
            for kind, text, change in changes:
                wrong: Any = replace(record, backward=partial(_backward, record.backward, change))
                yield Fault(record.name, kind, text, wrong)
        assert record.reference is not None  # it is no function of other ops
        wrong = replace(record, reference=partial(_reference, record.reference))
    else:
        for kind, text, change in changes:
            if "swapped" not in kind:  # operands are tapped one by one
                wrong = replace(record, function=partial(_tapped, record.function, change))
                yield Fault(record.name, kind, text, wrong)
        wrong = replace(record, function=partial(_result, record.function))
    yield Fault(record.name, "forward factor", f"forward times {FACTOR}", wrong)


def _changes(inputs: int) -> Iterator[tuple[str, str, Change]]:
    """Kinds of faults of a list of gradients, in words and as functions."""
    for kind, factor in _FACTORS.items():
        yield kind, f"all gradients times {factor:g}", partial(_times, factor, None)
    for place in range(inputs):
        text = f"gradient of input {place} zero"
        yield "gradient zero", text, partial(_times, 0.0, place)
    for first in range(inputs):
        for second in range(first + 1, inputs):
            text = f"gradients of inputs {first} and {second} swapped"
            yield "gradients swapped", text, partial(_swapped, first, second)


def _times(factor: float, place: int | None, gradients: list[Any]) -> list[Any]:
    """All gradients, or that of one place, times a factor."""
    return [
        scaled(gradient, factor) if place in {None, i} else gradient
        for i, gradient in enumerate(gradients)
    ]


def _swapped(first: int, second: int, gradients: list[Any]) -> list[Any]:
    swapped = list(gradients)
    if max(first, second) < len(swapped):
        swapped[first], swapped[second] = swapped[second], swapped[first]
    return swapped


def scaled(value: Any, factor: float) -> Any:
    """A floating tensor, or a gradient, times a factor; anything else as it is."""
    if isinstance(value, Tensor) and DTYPES[value.dtype].floating:
        return _scale(value, factor=factor)
    if isinstance(value, Spread):
        return Spread(_scale(value.value, factor=factor), value.shape)
    return value


# -- wrappers --------------------------------------------------------------------------


def _backward(right: Callable[..., Sequence[Any]], change: Change, saved: Any, *grads: Any) -> Any:
    return change(list(right(saved, *grads)))


def _reference(right: Callable[..., Any], *arrays: Any, **attrs: Any) -> Any:
    given = right(*arrays, **attrs)
    if isinstance(given, tuple):
        return tuple(_spoilt(operand) for operand in given)
    return _spoilt(given)


def _spoilt(given: Any) -> Any:
    array = np.asarray(given)
    return array * array.dtype.type(FACTOR) if is_floating(array) else array


def _result(right: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    results = right(*args, **kwargs)
    if isinstance(results, (list, tuple)):
        return type(results)(scaled(result, FACTOR) for result in results)
    return scaled(results, FACTOR)


def _tapped(right: Callable[..., Any], change: Change, *args: Any, **kwargs: Any) -> Any:
    """A call whose tensors pass on changed gradients."""
    count = 0

    def tap(value: Any) -> Any:
        nonlocal count
        if isinstance(value, (list, tuple)):
            return type(value)(tap(item) for item in value)
        if not isinstance(value, Tensor):
            return value
        place, count = count, count + 1
        return _tap(value, place, change)

    return right(*[tap(arg) for arg in args], **{k: tap(item) for k, item in kwargs.items()})


def _tap(operand: Any, place: int, change: Change) -> Any:
    def backward(grad: Any) -> list[Any]:
        return [change([None] * place + [grad])[place]]

    return apply_op(lambda value: value, backward, operand, op_name="seeded_tap", saves=())
