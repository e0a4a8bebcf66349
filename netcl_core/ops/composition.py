"""The function of an op that is made of other ops: by an implementation that somebody brings for
it, else as it is written.

An amp policy that names such an op decides on it as a whole; else it decides on the ops that it
is made of.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from netcl_core.errors import NetclError
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.ops.known_calls import KnownCalls
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.ops.operators import Operator, several
from netcl_core.ops.public_function import deliver, new_call, prepare, specs_of
from netcl_core.ops.targets import TARGETS, into
from netcl_core.ops.user_errors import MISTAKES, misfit, raise_named
from netcl_core.plugins.kinds import SERVING_OPS
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.state import casting_by, thread
from netcl_core.tape.trace_node import TraceBreak
from netcl_core.tape.tracing import TracingContext, depends_on_sizes, note_span
from netcl_core.tensors.arguments import ends_with_inplace, renaming
from netcl_core.tensors.tensor import Tensor

#: In the place of a call that nobody has asked for yet.
_UNKNOWN: Final = object()
#: Operands and attributes, as `bind` gives them.
_Bound: TypeAlias = tuple[Sequence[Any], Mapping[str, Any]]


def composite_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator that is a function of other ops; its errors name it."""
    function = operator.function
    assert function is not None  # it is made of other ops
    registry.load(SERVING_OPS, operator.name)
    calls: dict[Any, Any] = {}
    by_arguments = KnownCalls()
    renamed = renaming(operator.name, operator.signature.parameters)
    count = len(operator.signature.parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if not TARGETS.isdisjoint(kwargs):
                return into(call, args, kwargs)
            kwargs = renamed(kwargs)
        if ends_with_inplace(operator.name, args, count):
            return into(call, args[:-1], {**kwargs, "inplace": args[-1]})
        amp = thread.amp
        if amp is not None and operator.name in amp.policy.ops:  # as a whole
            args, kwargs = amp.cast_all(operator.name, (args, kwargs))
            with casting_by(None):
                return call(*args, **kwargs)
        tracer = thread.tracer
        if tracer is None or tracer.goes_on:
            return computed(args, kwargs)
        first = len(tracer.nodes)
        result = computed(args, kwargs)
        if thread.tracer is tracer:  # else the trace has ended meanwhile
            _span(operator, args, kwargs, first, result, tracer)
        return result

    def computed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = None
        if operator.implementations or registry.rows("implementation", operator.name):
            served, given = None, None
            if thread.amp is None and not depends_on_sizes():
                served, inputs, given = by_arguments.find(args, kwargs)
            if served is None:
                served, inputs, bound = _served(operator, calls, args, kwargs)
                if served is not None and given is not None:
                    by_arguments.note(given, served, inputs)
            if served is not None:
                return deliver(operator, apply(served, inputs, (), served.attrs))
        try:
            result = function(*args, **kwargs) if bound is None else operator.decomposed(*bound)
            return deliver(operator, list(result)) if type(result) is tuple else result
        except MISTAKES as error:
            if not isinstance(error, NetclError) and not misfit(function, args, kwargs):
                error.add_note(f"raised inside the op {operator.name}, by what it is made of")
                raise
            raise_named(error, operator.name, function, args, kwargs)

    return call


def _span(
    operator: Operator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    first: int,
    result: Any,
    tracer: TracingContext,
) -> None:
    """Tell a trace that the nodes from `first` on are one call of an op.

    What it was given counts as the function's signature has it: its operands, or else every
    tensor; all other arguments are attributes.
    """
    bound = operator.signature.bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    names = operator.operands or [name for name, x in given.items() if isinstance(x, Tensor)]
    attrs = {name: value for name, value in given.items() if name not in names}
    if not any(map(_holds_tensors, attrs.values())):
        note_span(tracer, operator.name, [given[name] for name in names], attrs, first, result)


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tensors, value))
    if isinstance(value, dict):
        return any(map(_holds_tensors, value.values()))
    return isinstance(value, Tensor)


def _served(
    operator: Operator, calls: dict[Any, Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[OperatorCall | None, list[Any], _Bound | None]:
    """The call of an implementation, with its inputs; None: the function serves.

    With a decomposition of its own it goes on from what `bind` gave, which is called once: it may
    have drawn a random state.
    """
    bind, bound = operator.bind, None
    if bind is None:
        return None, [], None
    try:
        operands, attrs = bind(*args, **kwargs)
        bound = (operands, attrs) if operator.decomposition is not None else None
        device = common_device(operator.name, operands) or default_device()
        if not device.has_kernels:
            return None, [], bound
        operands, inputs, _, _, key = prepare(operator, operands, attrs.values())
        call = calls.get(key, _UNKNOWN)
    except (TypeError, ValueError):  # metadata that is no key, data that is none: as it is written
        return None, [], bound
    if call is _UNKNOWN:
        make = functools.partial(implemented, operator, specs=specs_of(operands), attrs=attrs)
        call = new_call(operator.name, calls, key, inputs, make)
    return (None, [], bound) if call is None else (call, inputs, None)


def implemented(
    operator: Operator, device: Device, specs: tuple[Spec | None, ...], attrs: Mapping[str, Any]
) -> OperatorCall | None:
    """The call of an implementation that serves on a device; None: the function does."""
    results = _results(operator, device, specs, attrs) if device.has_kernels else None
    if results is None:
        return None
    call = OperatorCall(operator, device, specs, attrs, results)
    if operator.infer is None:
        call.results_of = functools.partial(_results, operator, device)
    served = call.launches and operator.select(call.request, call.chosen) is not None
    return call if served else None


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
        with TracingContext() as context, casting_by(None):
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
    if not all(isinstance(operand, Tensor) for operand in results):
        return None
    return tuple(Spec(operand.shape, operand.dtype) for operand in results)
