"""The function of an op that is made of other ops: by an implementation that somebody brings for
it, else as it is written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from netcl_core.device.device import Device
from netcl_core.device.device_table import default_device
from netcl_core.errors import NetclError
from netcl_core.ops.mistakes import MISTAKES, misfit, raise_named
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.ops.operator_function import CALLS, call_key, deliver, specs_of
from netcl_core.ops.operators import Operator, several
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.memo import Memo
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.node import Node
from netcl_core.tape.tracing import TraceBreak, TracingContext
from netcl_core.tensors.tensor import Operand, Tensor

#: In the place of a call: the function serves.
_FUNCTION: Final = object()


def composite_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator that is a function of other ops; its errors name it."""
    function = operator.function
    assert function is not None  # it is made of other ops
    calls: Memo[Any, Any] = Memo(CALLS)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if operator.implementations or registry.rows("implementation", operator.name):
            made, inputs = _served(operator, calls, args, kwargs)
            if made is not None:
                return deliver(operator, apply(made, inputs, (), made.attrs))
        try:
            found = function(*args, **kwargs)
            return deliver(operator, list(found)) if type(found) is tuple else found
        except MISTAKES as error:
            if not isinstance(error, NetclError) and not misfit(function, args, kwargs):
                error.add_note(f"raised inside the op {operator.name}, by what it is made of")
                raise
            raise_named(error, operator.name, function, args, kwargs)

    return call


def composed_call(
    operator: Operator, device: Device, tensors: Sequence[Tensor], attrs: Mapping[str, Any]
) -> OperatorCall | None:
    """The call of an implementation that would serve on a device; None: the function does.

    `tensors` are the first operands; they may lie elsewhere, since only their shapes and dtypes
    are looked at.
    """
    if operator.bind is None or device.backend == "numpy":
        return None
    if operator.operands and len(tensors) <= len(operator.operands):
        named = dict(zip(operator.operands, tensors, strict=False))
        operands, metadata = operator.bind(**named, **attrs)
    else:
        operands, metadata = operator.bind(*tensors, **attrs)
    specs = specs_of(operands, [x for x in operands if x is not None])
    made = _made(operator, device, specs, metadata)
    return None if made is _FUNCTION else made


def _served(
    operator: Operator, calls: Memo[Any, Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[OperatorCall | None, list[Any]]:
    """The call of an implementation, with its inputs; None: the function serves."""
    bind = operator.bind
    if bind is None:
        return None, []
    try:
        operands, attrs = bind(*args, **kwargs)
        device = common_device(operator.name, operands) or default_device()
        if device.backend == "numpy":
            return None, []
        inputs, key = call_key(operands, device, attrs)
        made = calls.get(key)
    except (TypeError, ValueError):  # metadata that is no key, data that is none: as it is written
        return None, []
    if made is None:
        made = calls.put(key, _made(operator, device, specs_of(operands, inputs), attrs))
    return (None, []) if made is _FUNCTION else (made, inputs)


def _made(
    operator: Operator, device: Device, specs: tuple[Spec | None, ...], attrs: Mapping[str, Any]
) -> Any:
    results = _results(operator, device, specs, attrs)
    if results is None:
        return _FUNCTION
    made = OperatorCall(operator, device, specs, attrs, results)
    if not made.launches or operator.select(made.request, made.chosen) is None:
        return _FUNCTION
    return made


def _results(
    operator: Operator, device: Device, specs: tuple[Spec | None, ...], attrs: Mapping[str, Any]
) -> tuple[Spec, ...] | None:
    """Shapes and dtypes of the results: by the operator's rule, else by a trace of its function.

    None where the function cannot be traced, refuses its arguments (and will say so itself), or
    gives something else than tensors.
    """
    try:
        if operator.infer is not None:
            return several(operator.infer(*specs, **attrs))
        with TracingContext() as context:
            stand_ins = [
                None
                if spec is None
                else context.input(Tensor(None, spec.shape, spec.dtype, device))
                for spec in specs
            ]
            result = operator.decomposed(stand_ins, attrs)
            if context.broken is not None:
                return None
    except (TraceBreak, *MISTAKES):
        return None
    results = result if isinstance(result, (tuple, list)) else (result,)
    if not all(isinstance(each, (Node, Operand)) for each in results):
        return None
    return tuple(Spec(each.shape, each.dtype) for each in results)
