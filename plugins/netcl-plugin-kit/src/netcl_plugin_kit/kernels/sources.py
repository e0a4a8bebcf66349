"""The sources of an op: what is rendered for a device, a dtype and shapes, without building it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, final

from netcl_core import DTYPES, Device, Spec, default_device
from netcl_core.autograd import AutogradPrimitive, Operator
from netcl_core.errors import ArgumentError, message
from netcl_core.inspect.choices import missing
from netcl_core.inspect.data import category_of_scalar, check_dtype
from netcl_core.inspect.expressions import split_attrs
from netcl_core.inspect.recorded import OperatorCall, thread
from netcl_core.inspect.sources import Plan, Signature, record_region
from netcl_core.inspect.streams import HostBound
from netcl_core.plugins.protocol import Row, registry
from netcl_plugin_kit.kernels.dry_calls import call_for
from netcl_plugin_kit.why.decisions import explain, explain_call

OPENCL: Final = "OpenCL C"
PYTHON: Final = "Python"
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_DEFAULT_SHAPE: Final = (1024,)


@final
@dataclass(frozen=True, slots=True)
class Source:
    """One kernel or Python function: its name, its text, and how it is launched (None: it is not).

    A local size of None is the device's choice.
    """

    entry: str
    text: str
    language: str
    global_size: tuple[int, ...] | None = None
    local_size: tuple[int, ...] | None = None


@final
@dataclass(frozen=True, slots=True)
class OpSources:
    """The sources of an op for some inputs, who provides it, and why it is computed this way.

    `implementation` is the label of the one that was chosen for a structured op on OpenCL. An op
    that is made of others here has no sources and no output.
    """

    op: str
    provider: str
    device: str
    dtype: str
    phase: str
    inputs: tuple[Spec, ...]
    output: Spec | None
    sources: tuple[Source, ...]
    why: str
    notes: tuple[str, ...] = ()
    implementation: str = ""


def sources_of(
    op: str,
    device: Device | None = None,
    dtype: str = "float32",
    inputs: Sequence[Spec] | Spec | None = None,
    attrs: Mapping[str, Any] = _NONE,
    *,
    backward: bool = False,
) -> OpSources:
    """The rendered sources of an op, as `netcl kernels show` prints them.

    Args:
        op: The op's name.
        device: Where it would run; None: on the default device.
        dtype: The dtype of inputs that are not given.
        inputs: Shape and dtype of each input, or one for all; None: 1024 elements each.
        attrs: The op's attributes by name.
        backward: The gradients instead of the value.

    Raises:
        MissingOpError: no plugin provides the op.
        ArgumentError: the inputs do not fit the op, a structured op got none, it has no
            gradient.
        ShapeError, DtypeError, AttributeValueError: as the op itself does.
        DeviceError: no implementation fits the device.
    """
    row = registry.find_op(op, thread.chosen)
    if row is None:
        raise missing(op)
    device = device or default_device()
    if isinstance(row.record, AutogradPrimitive):
        given = _inputs_of(row.record, dtype, inputs)
        return _of_primitive(row, device, dtype, given, attrs, backward)
    if not inputs:
        remedy = f"Give them with `netcl kernels show {op} --shapes 64x32,32x16`, or as `inputs`"
        lacking = "a structured op without shapes"
        raise ArgumentError(message(op, lacking, "one for each input", remedy))
    specs = (inputs,) if isinstance(inputs, Spec) else tuple(inputs)
    return _of_operator(row, device, dtype, specs, attrs, backward)


# -- elementwise ops -------------------------------------------------------------------


def _inputs_of(
    record: AutogradPrimitive, dtype: str, inputs: Sequence[Spec] | Spec | None
) -> tuple[Spec, ...]:
    if inputs is None or isinstance(inputs, Spec):
        return (inputs or Spec(_DEFAULT_SHAPE, dtype),) * (record.arity or 2)
    if record.arity not in {None, len(inputs)}:
        raise ArgumentError(message(record.name, f"{len(inputs)} shapes", f"{record.arity}"))
    return tuple(inputs)


def _of_primitive(
    row: Row,
    device: Device,
    dtype: str,
    inputs: tuple[Spec, ...],
    attrs: Mapping[str, Any],
    backward: bool,
) -> OpSources:
    record = row.record
    plan = _plan(record, device, inputs, record.bind_attrs(attrs))
    notes: tuple[str, ...] = ()
    if backward:
        trees = plan.region.steps[0].parsed.backward
        if trees is None:
            raise ArgumentError(message(record.name, "no gradient", "a differentiable op"))
        needs = tuple(
            tree is not None and DTYPES[spec.dtype].floating
            for tree, spec in zip(trees, inputs, strict=True)
        )
        if not (plan.differentiable and any(needs)):
            given = f"no gradient for {', '.join(spec.dtype for spec in inputs)}"
            raise ArgumentError(message(record.name, given, "floating inputs"))
        generated = plan.backward(needs).generated
        notes = tuple(f"the gradient of input {i} is grad itself" for i, _ in generated.passes)
    else:
        generated = plan.forward.generated
    language = PYTHON if not device.has_kernels else OPENCL
    source = Source(generated.entry, generated.text, language)
    return OpSources(
        record.name,
        row.provider,
        str(device),
        dtype,
        "backward" if backward else "forward",
        inputs,
        Spec(plan.shape, plan.types.outputs[0]),
        (source,) if generated.writes else (),
        str(explain(record.name, device, plan.types.outputs[0])),
        notes,
    )


def _plan(
    record: AutogradPrimitive, device: Device, inputs: Sequence[Spec], attrs: Mapping[str, Any]
) -> Plan:
    """The region of this one step, planned."""
    for spec in inputs:
        check_dtype(spec.dtype, device)
    region = record_region(record, [True] * len(inputs), attrs)
    return Plan(region, device, record_signature(inputs, attrs))


def record_signature(inputs: Sequence[Spec], attrs: Mapping[str, Any]) -> Signature:
    """The signature of one use of a primitive alone, whose operands are all tensors."""
    numbers, _ = split_attrs(attrs)
    categories = tuple(category_of_scalar(value) for value in numbers.values())
    return Signature(tuple((spec.shape, spec.dtype) for spec in inputs), categories)


# -- structured ops --------------------------------------------------------------------


def _of_operator(
    row: Row,
    device: Device,
    dtype: str,
    given: tuple[Spec, ...],
    attrs: Mapping[str, Any],
    backward: bool,
) -> OpSources:
    operator: Operator = row.record
    call = call_for(operator, device, given, attrs)
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    label = ""
    if call is None:
        notes = ("it is made of other ops: compile a function that calls it to see their kernels",)
    elif backward:
        rule = call.rule()
        if rule is None:
            raise ArgumentError(message(operator.name, "no gradient", "a differentiable op"))
        sources, notes = _python(rule), ("the gradients are computed with other ops",)
        label = call.implementation.label if call.launches else ""
    elif not device.has_kernels:
        sources, notes = _python(operator.reference), ("NumPy computes it by its reference",)
    elif not call.launches:
        what = "the input's buffer in another shape" if operator.view else "empty"
        notes = (f"nothing is launched: the result is {what}",)
    else:
        sources, label = _launched(call), call.implementation.label
    return OpSources(
        operator.name,
        row.provider,
        str(device),
        dtype,
        "backward" if backward else "forward",
        given,
        None if call is None else call.results[0],
        sources,
        _why(operator, device, dtype, call),
        notes,
        label,
    )


def _why(operator: Operator, device: Device, dtype: str, call: OperatorCall | None) -> str:
    if call is None:
        return str(explain(operator.name, device, dtype))
    return str(explain_call(call))


def _launched(call: OperatorCall) -> tuple[Source, ...]:
    """What a call runs: its kernels, or a call of a host's library."""
    bound = call.bound(False)
    if isinstance(bound, HostBound):
        return _python(bound.call.run)
    return tuple(
        Source(launch.entry, launch.source, OPENCL, launch.global_size, launch.local_size)
        for launch in bound.launches
    )


def _python(function: Any) -> tuple[Source, ...]:
    """The text of a Python function, if it has one."""
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return ()
    return (Source(getattr(function, "__name__", ""), text, PYTHON),)
