"""The public functions of elementwise ops: bind arguments, plan, call.

An eager elementwise op is a region of one step (before it, under an amp policy, the casts of its
operands), planned and launched by the same lowering that fused regions use.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from netcl_core.cache import Memo
from netcl_core.codegen.generation import TypedRegion, typed_region, typing_of
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive, split_attrs
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.dtypes import category_of_scalar, is_floating
from netcl_core.errors import ArgumentError, DtypeError, NetclError, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.ops.casting import Casts
from netcl_core.ops.targets import TARGETS, into
from netcl_core.ops.user_errors import MISTAKES, raise_named
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.computations import cast_step
from netcl_core.tape.node import Node
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.state import thread
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tape.tracing import refused
from netcl_core.tensors.arguments import ends_with_inplace, renaming
from netcl_core.tensors.tensor import Tensor

#: How many plans, and how many combinations of dtypes, an op keeps.
_PLANS: Final = 1024
_REGIONS: Final = 256
_NUMBERS: Final = frozenset({bool, int, float})
_PLAIN: Final = _NUMBERS | {TracedNumber}


def primitive_function(record: AutogradPrimitive) -> Callable[..., Any]:
    """The public function of a primitive: data first, then attributes in their order.

    Data may be Tensors, Nodes, host arrays and Python numbers; a number is a
    scalar argument of the kernel, so that a new value builds nothing.
    """
    plans: Memo[Any, RegionCall] = Memo(_PLANS)
    regions: Memo[Any, TypedRegion] = Memo(_REGIONS)
    defaults = record.default_attrs()
    default_key = None if defaults is None else _attrs_key(defaults)
    if defaults is not None and record.arity is not None:
        record.parsed(record.arity, split_attrs(defaults)[1])
    split = _splitter(record)
    most = (record.arity or 0) + len(record.attrs)

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
        if given and record.forms and _wants_form(record, given):
            return _by_form(record, data, given)
        attrs = defaults if defaults is not None and not given else record.bind_attrs(given)
        operands = sorted_operands(data)
        if operands is None:
            data = _operands(record.name, data)
            operands = sorted_operands(data)
            assert operands is not None  # host data is tensors and plain numbers now
        tensors, scalars, key = operands
        casts = None if thread.amp is None else thread.amp.in_region(record.name, tensors)
        numbers, kinds = (attrs is defaults and default_key) or _attrs_key(attrs)
        scalars += numbers
        key += kinds
        key.append(casts)
        whole = tuple(key)
        region_call = plans.get(whole)
        if region_call is None:
            try:
                plan = _plan(record, data, attrs, scalars, casts, regions)
            except NetclError:
                refused(tensors)
                raise
            region_call = plans.put(whole, RegionCall(plan, record.name))
        return apply(region_call, tensors, scalars, attrs)

    call.__name__ = call.__qualname__ = record.name
    call.__doc__ = _doc(record)
    signature = _signature(record)
    if signature is not None:
        call.__signature__ = signature  # type: ignore[attr-defined]
    return call if record.align is None else _aligned(record, record.align, call)


#: What a kind of result means for dtypes.
_OF_DTYPES: Final = {"float": "; integers become float32", "bool": "; the result is bool"}


def _doc(record: AutogradPrimitive) -> str:
    """The record's text, and below it the shapes and dtypes that follow from its fields."""
    names = record.inputs or ["x", "y", "z", "w"][: record.arity]
    shapes = "of any shape" if len(names) == 1 else "with shapes that broadcast"
    text = inspect.cleandoc(record.doc or f"The elementwise op {record.name}.")
    given = " and ".join(names) if record.arity else "Inputs"
    return f"{text}\n\nFor {given} {shapes}{_OF_DTYPES.get(record.result or '', '')}."


def _signature(record: AutogradPrimitive) -> inspect.Signature | None:
    """What `inspect.signature(ag.<name>)` tells; None: the number of inputs is open."""
    defaults = record.default_attrs()
    if record.arity is None or defaults is None:
        return None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = record.inputs or ["x", "y", "z", "w"][: record.arity]
    if len(names) != record.arity:
        return None
    inputs = [inspect.Parameter(name, kind, annotation="Any") for name in names]
    attrs = [
        inspect.Parameter(name, kind, default=value, annotation=type(value).__name__)
        for name, value in defaults.items()
    ]
    return inspect.Signature([*inputs, *attrs])


def _aligned(
    record: AutogradPrimitive, align: Callable[..., Sequence[Any]], call: Callable[..., Any]
) -> Callable[..., Any]:
    """The function whose operands the record aligns first."""
    split = _splitter(record)

    @functools.wraps(call)
    def aligned(*args: Any, **kwargs: Any) -> Any:
        data: Sequence[Any]
        if kwargs and not TARGETS.isdisjoint(kwargs):
            return into(aligned, args, kwargs)
        plain = len(args) == record.arity and not kwargs
        data, given = (args, kwargs) if plain else split(args, kwargs)
        if not all(isinstance(x, Tensor) or type(x) in _PLAIN for x in data):
            data = _operands(record.name, data)
        return call(*align(*data), **given)

    return aligned


def _wants_form(record: AutogradPrimitive, given: Mapping[str, Any]) -> bool:
    """Whether an argument is one that the expressions do not take, and a form does."""
    return any(
        name in record.forms
        and (name not in record.attrs or isinstance(value, (Tensor, np.ndarray)))
        for name, value in given.items()
    )


def _by_form(record: AutogradPrimitive, data: Sequence[Any], given: dict[str, Any]) -> Any:
    """The op by the function of other ops that takes these arguments."""
    form = next(record.forms[name] for name in given if name in record.forms)
    try:
        return form(*data, **given)
    except MISTAKES as error:
        raise_named(error, record.name, form, data, given)


def _attrs_key(attrs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The numbers among some attributes, and what a plan depends on of all of them."""
    numbers, _ = split_attrs(attrs)
    return list(numbers.values()), [
        value.__class__ if name in numbers else (value,) for name, value in attrs.items()
    ]


def sorted_operands(
    data: Sequence[Any], numbers: AbstractSet[type] = _NUMBERS
) -> tuple[list[Any], list[Any], list[Any]] | None:
    """The tensors, the numbers, and what the call depends on of them; None if there is other data.

    Every call of an op goes through here. `numbers` are the types that an elementwise op takes as
    kernel arguments; a structured op takes none, but operands that are absent.
    """
    tensors: list[Any] = []
    scalars: list[Any] = []
    key: list[Any] = []
    for operand in data:
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
        else:
            return None
    return (tensors, scalars, key) if tensors or not numbers else None


def _splitter(record: AutogradPrimitive) -> Callable[..., Any]:
    """What takes a call's arguments apart, where they are not just the operands by position."""
    if record.arity is None:
        return lambda args, kwargs: (args, kwargs)
    renamed = renaming(record.name, (*(record.inputs or ()), *record.attrs, *record.forms))
    return lambda args, kwargs: _split(record, args, renamed(kwargs))


def _split(
    record: AutogradPrimitive, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Data by position or by its name, then attributes in order of their declaration."""
    arity, names = record.arity, tuple(record.attrs)
    assert arity is not None  # then everything is data
    data = list(args[:arity])
    for name in (record.inputs or ())[len(data) :]:
        if name in kwargs:
            data.append(kwargs.pop(name))
    extra = args[arity:]
    if len(data) != arity or len(extra) > len(names):
        wanted = ", ".join([*(record.inputs or [f"x{i}" for i in range(arity)]), *names])
        raise ArgumentError(
            message(record.name, f"{len(args)} positional arguments", f"({wanted})")
        )
    for name, value in zip(names, extra, strict=False):
        if name in kwargs:
            raise ArgumentError(message(record.name, f"{name!r} given twice", "one value"))
        kwargs[name] = value
    return tuple(data), kwargs


def _operands(who: str, data: Sequence[Any]) -> list[Any]:
    """Host data on the device of the others; a call with numbers alone gets a 0-d tensor."""
    device = common_device(who, data) or default_device()
    try:
        operands = [x if isinstance(x, Tensor) else _host_operand(who, x, device) for x in data]
        if operands and not any(isinstance(x, Tensor) for x in operands):
            operands[0] = Tensor.from_host(operands[0], device)
    except DtypeError as error:  # of the data, which knows no op
        raise DtypeError(f"{who}: {error}") from error.__cause__
    if not operands:
        raise ArgumentError(message(who, "no operand", "at least one"))
    return operands


def _host_operand(who: str, value: Any, device: Device) -> Any:
    """A number as a plain one, other host data as a tensor."""
    if type(value) in _NUMBERS or type(value) is TracedNumber:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        plain = not value.ndim and (value.dtype.kind in "biu" or is_floating(value))
        return value.item() if plain else Tensor.from_host(value, device)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if value is None or isinstance(value, (str, bytes, dict, set)):
        raise ArgumentError(
            message(who, f"an operand of type {type(value).__name__}", "tensors, arrays or numbers")
        )
    return Tensor.from_host(value, device)


def _plan(
    record: AutogradPrimitive,
    operands: Sequence[Any],
    attrs: dict[str, Any],
    scalars: Sequence[Any],
    casts: Casts | None,
    regions: Memo[Any, TypedRegion],
) -> Plan:
    """The region of the op for these operands, planned for their shapes and dtypes.

    `regions` has those of this record so far.
    """
    device = common_device(record.name, operands)
    assert device is not None  # there is at least one tensor
    kinds = tuple([isinstance(operand, Tensor) for operand in operands])
    _, choices = split_attrs(attrs)
    tensors = tuple([(x.shape, x.dtype) for x in operands if isinstance(x, Tensor)])
    signature = Signature(tensors, tuple([category_of_scalar(x) for x in scalars]))
    key = (device, kinds, choices, casts, typing_of(signature))
    known = regions.get(key)
    if known is None:
        region = record_region(record, kinds, attrs, casts or ())
        known = regions.put(key, typed_region(region, device, signature))
    return Plan(known.region, device, signature, known)


def record_region(
    record: AutogradPrimitive,
    tensors: Sequence[bool],
    attrs: Mapping[str, Any],
    casts: Sequence[str | None] = (),
) -> Region:
    """A primitive alone as a region: operands, then the numbers among its attributes, in order.

    `tensors` says which operands are no Python numbers, `casts` to what those are converted first.
    """
    refs: list[Ref] = []
    counts = {"in": 0, "scalar": 0}
    for is_tensor in tensors:
        kind = "in" if is_tensor else "scalar"
        refs.append((kind, counts[kind]))
        counts[kind] += 1
    steps: list[PrimitiveStep] = []
    for i, dtype in enumerate(casts):
        if dtype is not None:
            steps.append(cast_step(("in", i), dtype, rounds=False))
            refs[refs.index(("in", i))] = ("step", len(steps) - 1)
    numbers, choices = split_attrs(attrs)
    slots = tuple((name, i) for i, name in enumerate(numbers, start=counts["scalar"]))
    steps.append(PrimitiveStep(record, tuple(refs), choices, slots))
    result = ("step", len(steps) - 1)
    return Region(counts["in"], counts["scalar"] + len(slots), tuple(steps), (result,))
