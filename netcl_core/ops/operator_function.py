"""The public function of a structured op, and the calls that it keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from netcl_core.device.device_table import default_device
from netcl_core.ops.mistakes import MISTAKES, names_an_op, raise_named
from netcl_core.ops.operator_call import CALLS, OperatorCall, call_key, deliver, specs_of
from netcl_core.ops.operators import Operator
from netcl_core.runtime.memo import Memo
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.tracing import refused


def operator_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator."""
    calls: Memo[Any, OperatorCall] = Memo(CALLS)
    bind = operator.bind
    assert bind is not None  # functions of other ops have their own public function

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            operands, attrs = bind(*args, **kwargs)
            device = common_device(operator.name, operands) or default_device()
            inputs, key = call_key(operands, device, attrs)
            made = calls.get(key)
            if made is None:
                try:
                    specs = specs_of(operands, inputs)
                    made = calls.put(key, OperatorCall(operator, device, specs, attrs))
                except Exception:
                    refused(inputs)
                    raise
        except MISTAKES as error:
            if names_an_op(error):
                raise
            raise_named(error, operator.name, bind, args, kwargs)
        return deliver(operator, apply(made, inputs, (), attrs))

    call.__name__ = call.__qualname__ = operator.name
    call.__doc__ = operator.doc
    functools.update_wrapper(call, bind, assigned=("__annotations__",), updated=())
    return call
