"""Dry calls: what an op would call for some shapes, with nothing computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netcl_core import Device, Spec, Tensor, get_device, renaming
from netcl_core.autograd import Operator, as_operand
from netcl_core.inspect.choices import MISTAKES, implemented, names_an_op, raise_named
from netcl_core.inspect.data import check_dtype
from netcl_core.inspect.recorded import OperatorCall


def call_for(
    operator: Operator, device: Device, given: Sequence[Spec], attrs: Mapping[str, Any]
) -> OperatorCall | None:
    """The call that the op would make, None if it calls other ops; raises what it raises."""
    host = get_device("numpy")  # stand-ins: only shapes and dtypes are looked at
    tensors = [Tensor.full(spec.shape, 0, spec.dtype, host) for spec in given]
    attrs = renaming(operator.name, operator.signature.parameters)(dict(attrs))
    if operator.function is not None:
        try:
            return _implemented(operator, device, tensors, attrs)
        except MISTAKES as error:
            raise_named(error, operator.name, operator.function, tensors, attrs)
    function = operator.bind
    assert function is not None  # only functions of other ops go without
    try:
        inputs, bound = function(*tensors, **attrs)
        operands = [as_operand(x, host) for x in inputs]
        specs = tuple(None if x is None else Spec(x.shape, x.dtype) for x in operands)
        for spec in specs:
            if spec is not None:
                check_dtype(spec.dtype, device)
        return OperatorCall(operator, device, specs, bound)
    except MISTAKES as error:
        if names_an_op(error):
            raise
        raise_named(error, operator.name, function, tensors, attrs)


def _implemented(
    operator: Operator, device: Device, tensors: Sequence[Tensor], attrs: Mapping[str, Any]
) -> OperatorCall | None:
    """The call of an implementation; `tensors` are the first operands of an op made of others."""
    if operator.bind is None:
        return None
    if operator.operands and len(tensors) <= len(operator.operands):
        named = dict(zip(operator.operands, tensors, strict=False))
        operands, bound = operator.bind(**named, **attrs)
    else:
        operands, bound = operator.bind(*tensors, **attrs)
    specs = tuple(None if x is None else Spec(x.shape, x.dtype) for x in operands)
    return implemented(operator, device, specs, bound)
