"""Whether two tensors are close, or equal."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, message


def isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether |x - y| <= atol + rtol * |y|, element by element; equal infinities are close.

    >>> ag.isclose([1.0, 2.0], [1.0, 2.1]).tolist()
    [True, False]

    Args:
        input: x, a tensor of any dtype.
        other: y, of the same dtype; the two are broadcast.
        rtol: The bound per |y|, 0 or more.
        atol: The bound beside that, 0 or more.
        equal_nan: Whether two NaNs are close.

    Raises:
        DtypeError: Unless given one dtype.
        AttributeValueError: Unless given 0 or more.
    """
    for name, bound in {"rtol": rtol, "atol": atol}.items():
        if not bound >= 0:
            raise AttributeValueError(message("isclose", f"{name}={bound!r}", "0 or more"))
    x, y = (ag.as_operand(operand) for operand in (input, other))
    if x.dtype != y.dtype:
        raise DtypeError(message("isclose", f"{x.dtype} and {y.dtype}", "one dtype"))
    if x.dtype == "bool":
        x, y = x.astype("float32"), y.astype("float32")
    apart, allowed = ag.abs(ag.sub(x, y)), ag.add(ag.mul(ag.abs(y), rtol), atol)
    near = ag.logical_or(ag.eq(x, y), ag.logical_and(ag.isfinite(apart), ag.le(apart, allowed)))
    if equal_nan:
        near = ag.logical_or(near, ag.logical_and(ag.isnan(x), ag.isnan(y)))
    return near


def allclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Whether all elements are close, as Python's bool, for which the host waits.

    >>> ag.allclose([1.0, 2.0], [1.0, 2.000001])
    True

    Arguments as of `isclose`.
    """
    return bool(ag.all(ag.isclose(input, other, rtol, atol, equal_nan)))


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and the same elements, as Python's bool.

    The host waits for it; NaN equals nothing.

    >>> ag.equal([1, 2], [1, 2])
    True
    """
    x, y = (ag.as_operand(operand) for operand in (input, other))
    return x.shape == y.shape and bool(ag.all(ag.eq(x, y)))


OPERATORS = (composite(isclose, ("input", "other")), composite(allclose), composite(equal))
