"""Host data as operands: they become tensors or plain numbers, on the device of the others."""

from __future__ import annotations

import numbers as number_types
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from netcl_core.dtypes import is_floating
from netcl_core.errors import ArgumentError, DtypeError, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.tape.apply import common_device
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tensors.tensor import Tensor

#: The types of numbers that an elementwise op takes as kernel arguments.
NUMBERS: Final = frozenset({bool, int, float})


def as_tensors(who: str, operands: Sequence[Any]) -> list[Any]:
    """The operands of a structured op as tensors; None where one is absent."""
    device = common_device(who, operands) or default_device()
    return [as_operand(x, device) for x in operands]


def with_tensors(who: str, operands: Sequence[Any]) -> list[Any]:
    """The operands of an elementwise op as tensors and plain numbers, at least one a tensor."""
    device = common_device(who, operands) or default_device()
    try:
        tensors = [x if isinstance(x, Tensor) else _host_operand(who, x, device) for x in operands]
        if tensors and not any(isinstance(x, Tensor) for x in tensors):
            tensors[0] = Tensor.from_host(tensors[0], device)
    except DtypeError as error:  # of the data, which knows no op
        raise DtypeError(f"{who}: {error}") from error.__cause__
    if not tensors:
        raise ArgumentError(message(who, "no operand", "at least one"))
    return tensors


def _host_operand(who: str, value: Any, device: Device) -> Any:
    """A number as a plain one, other host data as a tensor."""
    if type(value) in NUMBERS or type(value) is TracedNumber:
        return value
    if is_number(value):
        return value.item()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, number_types.Real):
        return float(value)
    if value is None or isinstance(value, (str, bytes, dict, set)):
        raise ArgumentError(
            message(who, f"an operand of type {type(value).__name__}", "tensors, arrays or numbers")
        )
    return Tensor.from_host(value, device)


def is_number(x: Any) -> bool:
    """Whether NumPy holds a single number, which ops take as a Python number."""
    if not isinstance(x, (np.generic, np.ndarray)) or x.ndim:
        return False
    return x.dtype.kind in "biu" or is_floating(x)


def as_operand(value: Any, device: Device | None = None) -> Any:
    """A Node or Tensor as it is, None as None, host data as a Tensor on the device, or the default.

    >>> ag.as_operand([1.0, 2.0], nc.get_device("numpy"))
    Tensor([1., 2.], shape=(2,), dtype=float32, device=numpy)

    Args:
        value: A Tensor, an array, a number or a list.
    """
    if value is None or isinstance(value, Tensor):
        return value
    return Tensor.from_host(value, device)


def as_operands(*values: Any) -> list[Any]:
    """Each as `as_operand`; host data go to the device of the first tensor among them.

    >>> ag.as_operands(nc.ones(1, device="numpy"), 2.0)[1].device
    <Device numpy: NumPy>

    Args:
        values: Tensors, arrays, numbers or lists.
    """
    device = next((x.device for x in values if isinstance(x, Tensor)), None)
    return [as_operand(x, device) for x in values]
