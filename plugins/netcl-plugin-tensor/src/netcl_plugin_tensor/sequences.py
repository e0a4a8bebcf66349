"""Sequences of numbers, and the identity."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from netcl_core import DTYPES, Device, Tensor, dtype_name, lenient
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_core.inspect.data import Array


@lenient
def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    dtype: Any = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers from `start` to before `end`: ceil((end - start) / step) of them.

    >>> nc.arange(2, 8, 3).numpy(), nc.arange(3).dtype, nc.arange(3.0).dtype
    (array([2, 5]), 'int64', 'float32')

    Of one number, that is the end. The dtype is int64 for ints and float32 else. For integer
    dtypes start and step lose their fractions, for int64 the end as well, as in PyTorch.

    Raises AttributeValueError for a step of 0, or one that leads away from `end`.
    """
    if end is None:
        start, end = 0, start
    numbers: list[Any] = [_plain("arange", x) for x in (start, end, step)]
    whole = all(isinstance(x, int) for x in numbers)
    name = dtype_name(dtype, "arange") if dtype is not None else "int64" if whole else "float32"
    first, last, by = numbers
    finite = all(map(math.isfinite, numbers))
    if not finite or not by or (last - first) / by < 0 or (name == "int64" and not int(by)):
        given = f"start={first}, end={last}, step={by}"
        raise AttributeValueError(message("arange", given, "finite numbers, a step towards end"))
    if name == "int64":
        first, last, by = int(first), int(last), int(by)  # before the count
    exact = name == "int64" or whole
    count = -((first - last) // by) if exact else math.ceil((last - first) / by)
    if not DTYPES[name].floating:
        first, by = int(first), int(by)
    kind = np.int64 if isinstance(first, int) and isinstance(by, int) else np.float64
    values: Array = np.arange(int(count), dtype=kind) * by + first
    return Tensor.from_host(values, device, name, requires_grad)


@lenient
def linspace(
    start: float,
    end: float,
    steps: int,
    dtype: Any = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` numbers at equal distances, the first `start` and the last `end`.

    >>> nc.linspace(0, 1, 5).numpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    first, last = _plain("linspace", start), _plain("linspace", end)
    count = _count("linspace", "steps", steps)
    with np.errstate(invalid="ignore"):  # between infinities lie NaNs
        values = np.linspace(float(first), float(last), count)
    return Tensor.from_host(values, device, dtype or "float32", requires_grad)


@lenient
def eye(
    n: int,
    m: int | None = None,
    dtype: Any = None,
    device: str | Device | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """The n x m matrix with ones on its diagonal; of one number, n x n.

    >>> nc.eye(2).numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    rows = _count("eye", "n", n)
    columns = rows if m is None else _count("eye", "m", m)
    return Tensor.from_host(np.eye(rows, columns), device, dtype or "float32", requires_grad)


def _plain(who: str, value: Any) -> Any:
    """A Python number, of an element too."""
    plain = value.item() if isinstance(value, (Tensor, np.ndarray, np.generic)) else value
    if isinstance(plain, bool) or not isinstance(plain, Real):
        raise ArgumentError(message(who, f"{value!r}", "numbers"))
    return plain


def _count(who: str, name: str, value: Any) -> int:
    plain = _plain(who, value)
    if not isinstance(plain, Integral) or plain < 0:
        raise AttributeValueError(message(who, f"{name}={value!r}", "an int, 0 or more"))
    return int(plain)
