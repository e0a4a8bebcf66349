"""Tensors made of nothing but numbers: constants, sequences, the identity, and those like others.

Random ones come from a plugin, since kernels make them.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Final

import numpy as np

from netcl_core.dtypes import DTYPES, dtype_name
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_core.hardware.device import Device
from netcl_core.tensors.arguments import is_foreign, lenient
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor

zeros: Final = Tensor.zeros
ones: Final = Tensor.ones
full: Final = Tensor.full
empty: Final = Tensor.empty


@lenient
def tensor(
    data: Any,
    device: str | Device | None = None,
    dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of host data, or of another tensor's: `Tensor.from_host`.

    >>> nc.tensor([[1, 2], [3, 4]], device="numpy")
    Tensor([[1, 2],
            [3, 4]], shape=(2, 2), dtype=int64, device=numpy)
    """
    return Tensor.from_host(data, device, dtype, requires_grad)


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


def zeros_like(input: Any, **options: Any) -> Tensor:
    """Zeros of a tensor's shape, dtype and device; `dtype=`, `device=`, `requires_grad=` say else.

    >>> nc.zeros_like(nc.ones(2, dtype="int32")).numpy()
    array([0, 0], dtype=int32)
    """
    return full_like(input, 0, **options)


def ones_like(input: Any, **options: Any) -> Tensor:
    """Ones of a tensor's shape, dtype and device; `dtype=`, `device=`, `requires_grad=` say else.

    >>> nc.ones_like(nc.zeros(2, 1)).shape
    (2, 1)
    """
    return full_like(input, 1, **options)


def full_like(input: Any, fill_value: float, **options: Any) -> Tensor:
    """A tensor of one value, of a tensor's shape, dtype and device, or as the options say.

    >>> nc.full_like(nc.zeros(2), 7).numpy()
    array([7., 7.], dtype=float32)

    Args:
        fill_value: The number that fills it.
    """
    return full(input.shape, fill_value, **_alike(input, options))


def empty_like(input: Any, **options: Any) -> Tensor:
    """An uninitialised tensor of a tensor's shape, dtype and device, or as the options say.

    >>> nc.empty_like(nc.zeros(2)).shape
    (2,)
    """
    return empty(input.shape, **_alike(input, options))


def _alike(input: Any, options: dict[str, Any]) -> dict[str, Any]:
    given = {
        name: value
        for name, value in options.items()
        if value is not None and not is_foreign("like", name, value)
    }
    return {"dtype": input.dtype, "device": input.device, **given}


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
