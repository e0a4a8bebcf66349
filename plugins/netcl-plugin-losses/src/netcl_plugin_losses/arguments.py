"""What all losses do with their arguments: one device, equal shapes, the `reduction`.

Those of other plugins too.
"""

from __future__ import annotations

from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message

FLOATING: Final = tuple(name for name, dtype in nc.DTYPES.items() if dtype.floating)
_REDUCTIONS: Final = ("mean", "sum", "none")


def checked(who: str, reduction: str) -> str:
    """The reduction; raises AttributeValueError for an unknown one."""
    if reduction not in _REDUCTIONS:
        raise AttributeValueError(message(who, f"reduction={reduction!r}", "mean, sum or none"))
    return reduction


def alike(who: str, *names: str, **values: Any) -> list[Any]:
    """Operands of one shape, of which those with the given names are floating.

    Raises ShapeError if the shapes differ (broadcasting would hide a mistake), DtypeError.
    """
    operands = dict(zip(values, ag.as_operands(*values.values()), strict=True))
    if len({value.shape for value in operands.values()}) > 1:
        given = " and ".join(f"{name} of shape {value.shape}" for name, value in operands.items())
        remedy = "Reshape or expand one of them"
        raise ShapeError(message(who, given, "equal shapes", remedy))
    for name in names or list(values)[:1]:
        floating(who, name, operands[name])
    return list(operands.values())


def floating(who: str, name: str, value: Any) -> None:
    """Raise DtypeError unless an operand is floating."""
    if value.dtype not in FLOATING:
        expected, remedy = "a floating dtype", "Use astype('float32')"
        raise DtypeError(message(who, f"{name} of dtype {value.dtype}", expected, remedy))


def non_negative(who: str, name: str, value: Any) -> float:
    """A number as float; raises AttributeValueError if it is negative, NaN or none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0:
        raise AttributeValueError(message(who, f"{name}={value!r}", "a number >= 0"))
    return number


def weighted(elements: Any, weight: Any) -> Any:
    """Element losses times a weight that broadcasts to their shape; None: as they are."""
    return elements if weight is None else ag.mul(elements, ag.as_operands(elements, weight)[1])


def reduce(values: Any, reduction: str) -> Any:
    """Element losses as they are, summed, or averaged."""
    if reduction == "none":
        return values
    return ag.sum(values) if reduction == "sum" else ag.mean(values)
