"""The public functions of ops: what they are given becomes a call, which `apply` runs.

One `prepare` decides for all ops, before a call is looked up: operands, casts and key. What differs
is told by the numbers that an op takes: an elementwise op has them as kernel arguments and casts
within its kernel; a structured op has none, and its operands are cast by calls of their own.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial, update_wrapper
from typing import Any, Final, TypeAlias

from netcl_core.cache import Memo
from netcl_core.codegen.generation import TypedRegion, typed_region, typing_of
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive, split_attrs
from netcl_core.codegen.region import Signature
from netcl_core.dtypes import category_of_scalar
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.ops.casting import Casts
from netcl_core.ops.host_operands import NUMBERS, as_tensors, with_tensors
from netcl_core.ops.known_calls import KnownCalls
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.ops.operators import Operator
from netcl_core.ops.primitive_arguments import (
    attrs_key,
    by_form,
    doc,
    signature,
    splitter,
    wants_form,
)
from netcl_core.ops.targets import TARGETS, into
from netcl_core.ops.user_errors import MISTAKES, names_an_op, raise_named
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.node import Node
from netcl_core.tape.region_call import RegionCall, record_region
from netcl_core.tape.state import thread
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tape.tracing import depends_on_sizes, refused
from netcl_core.tensors.arguments import ends_with_inplace, renaming
from netcl_core.tensors.tensor import Tensor

#: How many calls an op keeps.
_CALLS: Final = 1024
#: The operands, the tensors and the numbers among them, to what the kernel casts, and the key.
Prepared: TypeAlias = tuple[Sequence[Any], list[Any], list[Any], Casts | None, tuple[Any, ...]]
#: How many combinations of dtypes an op keeps.
_REGIONS: Final = 256
_NO_NUMBERS: Final[frozenset[type]] = frozenset()


def prepare(
    record: Any,
    operands: Sequence[Any],
    attrs: Iterable[Any],
    numbers: AbstractSet[type] = _NO_NUMBERS,
    casts: bool = True,
) -> Prepared:
    """What a call of an op is looked up and run by; every call of an op goes through here.

    The key has all that the call depends on. Which implementation serves a structured op follows
    from the registry's version and the choices in force; where the registry changes, the function
    of a primitive goes with all its plans.

    Args:
        record: A primitive or an operator.
        operands: Tensors, host data and numbers; None for an absent operand of an operator.
        attrs: What the call depends on of the op's metadata.
        numbers: The types that are kernel arguments; none: a structured op.
        casts: Whether the amp policy in force is still to be asked.
    """
    tensors: list[Any] = []
    scalars: list[Any] = []
    key: list[Any] = []
    for operand in operands:
        if isinstance(operand, Tensor):
            value = operand.value if type(operand) is Node else operand
            tensors.append(operand)
            key += (value.shape, value.dtype, value.device)
        elif type(operand) in numbers:
            scalars.append(operand)
            key.append(type(operand))
        elif type(operand) is TracedNumber and numbers:
            scalars.append(operand)
            key.append(operand.type)
        elif operand is None and not numbers:
            key.append(None)
        else:  # host data
            convert = with_tensors if numbers else as_tensors
            return prepare(record, convert(record.name, operands), attrs, numbers)
    amp = thread.amp
    if numbers:
        if not tensors:
            return prepare(record, with_tensors(record.name, operands), attrs, numbers)
        in_kernel = None if amp is None else amp.in_region(record.name, tensors)
        key += in_kernel, *attrs
        return operands, tensors, scalars, in_kernel, tuple(key)
    if amp is not None and casts and record.view is None:
        device = common_device(record.name, tensors) or default_device()
        return prepare(record, amp.cast(record.name, operands, device), attrs, casts=False)
    key += (registry.version, *circumstances(tensors), *map(_told_apart, attrs))
    return operands, tensors, scalars, None, tuple(key)


def _told_apart(value: Any) -> Any:
    """A value of a key, where 0.0 and -0.0 are two."""
    return repr(value) if value.__class__ is float and not value else value


def circumstances(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """What a call depends on besides its arguments: choices, and without a tensor the device."""
    return (thread.chosen,) if tensors else (thread.chosen, default_device())


def new_call(
    who: str,
    calls: dict[Any, Any],
    key: tuple[Any, ...],
    tensors: Sequence[Any],
    make: Callable[[Device], Any],
) -> Any:
    """A call for a device, under its key; a trace depends on sizes of operands that are refused.

    When there are too many calls all are forgotten: to make one anew costs little more than to note
    at each use which was used last. Raises DeviceError for tensors on several devices.
    """
    try:
        call = make(common_device(who, tensors) or default_device())
    except Exception:
        refused(tensors)
        raise
    if len(calls) >= _CALLS:
        calls.clear()
    return calls.setdefault(key, call)


# -- elementwise ops ------------------------------------------------------------------------


def primitive_function(record: AutogradPrimitive) -> Callable[..., Any]:
    """The public function of a primitive: data first, then attributes in their order.

    Data may be Tensors, Nodes, host arrays and Python numbers; a number is a
    scalar argument of the kernel, so that a new value builds nothing.
    """
    plans: dict[Any, RegionCall] = {}
    regions: Memo[Any, TypedRegion] = Memo(_REGIONS)
    defaults = record.default_attrs()
    default_key = None if defaults is None else attrs_key(defaults)
    if defaults is not None and record.arity is not None:
        record.parsed(record.arity, split_attrs(defaults)[1])
    split = splitter(record)
    most, align = (record.arity or 0) + len(record.attrs), record.align

    def call(*args: Any, **kwargs: Any) -> Any:
        data: Sequence[Any]
        if kwargs and not TARGETS.isdisjoint(kwargs):
            return into(call, args, kwargs)
        plain = record.arity == len(args) and not kwargs
        if not plain and "" in record.forms and 0 < len(args) + len(kwargs) < (record.arity or 0):
            form = record.forms[""]
            try:
                return form(*args, **kwargs)
            except MISTAKES as error:
                raise_named(error, record.name, form, args, kwargs)
        if not plain and ends_with_inplace(record.name, args, most):
            return into(call, args[:-1], {**kwargs, "inplace": args[-1]})
        data, given = (args, kwargs) if plain else split(args, kwargs)
        if align is not None:
            data = align(*with_tensors(record.name, data))
        if given and record.forms and wants_form(record, given):
            return by_form(record, data, given)
        attrs = defaults if defaults is not None and not given else record.bind_attrs(given)
        numbers, kinds = (attrs is defaults and default_key) or attrs_key(attrs)
        operands, tensors, scalars, casts, key = prepare(record, data, kinds, NUMBERS)
        scalars += numbers
        region_call = plans.get(key)
        if region_call is None:
            make = partial(_call_of, record, regions, operands, attrs, scalars, casts)
            region_call = new_call(record.name, plans, key, tensors, make)
        return apply(region_call, tensors, scalars, attrs)

    call.__name__ = call.__qualname__ = record.name
    call.__doc__ = doc(record)
    shown = signature(record)
    if shown is not None:
        call.__signature__ = shown  # type: ignore[attr-defined]
    return call


def _call_of(
    record: AutogradPrimitive,
    regions: Memo[Any, TypedRegion],
    operands: Sequence[Any],
    attrs: dict[str, Any],
    scalars: Sequence[Any],
    casts: Casts | None,
    device: Device,
) -> RegionCall:
    """The region of the op for these operands, planned for their shapes and dtypes, as a call.

    `regions` has those of this record so far.
    """
    kinds = tuple([isinstance(operand, Tensor) for operand in operands])
    _, choices = split_attrs(attrs)
    tensors = tuple([(x.shape, x.dtype) for x in operands if isinstance(x, Tensor)])
    signature = Signature(tensors, tuple([category_of_scalar(x) for x in scalars]))
    key = (device, kinds, choices, casts, typing_of(signature))
    known = regions.get(key)
    if known is None:
        region = record_region(record, kinds, attrs, casts or ())
        known = regions.put(key, typed_region(region, device, signature))
    return RegionCall(Plan(known.region, device, signature, known), record.name)


# -- structured ops ------------------------------------------------------------------------


def operator_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator."""
    calls: dict[Any, OperatorCall] = {}
    calls_by_arguments, view = KnownCalls(), operator.view is not None
    bind = operator.bind
    assert bind is not None  # functions of other ops have their own public function
    renamed = renaming(operator.name, operator.signature.parameters)

    def prepared(args: Any, kwargs: Any) -> tuple[OperatorCall, list[Any], Sequence[Any]]:
        """The call for such operands, which is kept, the operands, and these as they are given."""
        try:
            bound, attrs = bind(*args, **kwargs)
            operands, inputs, _, _, key = prepare(operator, bound, attrs.values())
            known = calls.get(key)
            if known is None:
                specs = specs_of(operands)
                make = partial(OperatorCall, operator, specs=specs, attrs=attrs)
                known = new_call(operator.name, calls, key, inputs, make)
            return known, inputs, bound
        except MISTAKES as error:
            if names_an_op(error):
                raise
            raise_named(error, operator.name, bind, args, kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, amp = None, None if view else thread.amp
        if not depends_on_sizes():
            known, inputs, given = calls_by_arguments.find(args, kwargs, amp)
            if known is not None:
                if amp is not None:
                    inputs = amp.cast(operator.name, inputs, known.device)
                value = apply(known, inputs, (), known.attrs)
                return value if type(value) is not list else deliver(operator, value)
        if kwargs:
            if not TARGETS.isdisjoint(kwargs):
                return into(call, args, kwargs)
            kwargs = renamed(kwargs)
        known, inputs, bound = prepared(args, kwargs)
        if given is not None:
            calls_by_arguments.note(given, known, [x for x in bound if x is not None])
        return deliver(operator, apply(known, inputs, (), known.attrs))

    call.__name__ = call.__qualname__ = operator.name
    call.__doc__ = operator.doc
    update_wrapper(call, bind, assigned=("__annotations__",), updated=())
    return call


def deliver(operator: Operator, value: Any) -> Any:
    """What a call of an op gives: its one result, or a tuple, with names if it has some."""
    if type(value) is not list:
        return value
    return _tuple_type(operator)(*value) if operator.results else tuple(value)


@lru_cache(maxsize=1024)
def _tuple_type(operator: Operator) -> Any:
    return namedtuple(operator.name, operator.results)


def specs_of(operands: Sequence[Any]) -> tuple[Spec | None, ...]:
    """Shape and dtype of each operand, None for an absent one."""
    return tuple([None if x is None else Spec(x.shape, x.dtype) for x in operands])
