"""PyTorch's methods that fill a tensor with random numbers, on its device.

Each takes `generator=`, an `nc.Generator`; without it the process's draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from netcl_core import DTYPES, lenient
from netcl_core.errors import AttributeValueError, DtypeError, message
from netcl_core.inspect.choices import functions

#: The whole numbers up to which a floating dtype has all, by the bits of its fraction.
_EXACT: Final = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "float64": 2**53}


def _filled(x: Any, name: str, make: Callable[[], Any]) -> Any:
    return functions["change in place"](x, name, lambda old: make().astype(x.dtype))


def _drawn(x: Any, name: str, op: str, generator: Any) -> Any:
    """Numbers of a distribution, of x's shape; raises DtypeError for integers."""
    if not DTYPES[x.dtype].floating:
        remedy = "Convert it first with float()"
        raise DtypeError(message(name, f"a {x.dtype} tensor", "a floating dtype", remedy))
    return functions[op](x.shape, dtype=x.dtype, device=x.device, generator=generator)


def _check(name: str, holds: bool, given: str, expected: str) -> None:
    if not holds:
        raise AttributeValueError(message(name, given, expected))


@lenient
def uniform_(x: Any, start: float = 0.0, to: float = 1.0, generator: Any = None) -> Any:
    """Fill with numbers uniform in [start, to).

    >>> bool((nc.empty(100).uniform_(-1, 1).abs() <= 1).all())
    True
    """
    _check("uniform_", start <= to, f"from {start} to {to}", "ends in order")
    return _filled(
        x, "uniform_", lambda: _drawn(x, "uniform_", "rand", generator) * (to - start) + start
    )


@lenient
def normal_(x: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with normally distributed numbers."""
    _check("normal_", std >= 0, f"std={std}", "0 or more")
    return _filled(x, "normal_", lambda: _drawn(x, "normal_", "randn", generator) * std + mean)


@lenient
def log_normal_(x: Any, mean: float = 1.0, std: float = 2.0, generator: Any = None) -> Any:
    """Fill with e to the power of normally distributed numbers."""
    _check("log_normal_", std > 0, f"std={std}", "above 0")
    return _filled(
        x, "log_normal_", lambda: (_drawn(x, "log_normal_", "randn", generator) * std + mean).exp()
    )


@lenient
def exponential_(x: Any, lambd: float = 1.0, generator: Any = None) -> Any:
    """Fill with exponentially distributed numbers of mean 1 / lambd."""
    _check("exponential_", lambd > 0, f"lambd={lambd}", "above 0")
    return _filled(
        x,
        "exponential_",
        lambda: (-_drawn(x, "exponential_", "rand", generator)).log1p() * (-1 / lambd),
    )


@lenient
def cauchy_(x: Any, median: float = 0.0, sigma: float = 1.0, generator: Any = None) -> Any:
    """Fill with numbers of Cauchy's distribution."""
    _check("cauchy_", sigma > 0, f"sigma={sigma}", "above 0")

    def make() -> Any:
        return ((_drawn(x, "cauchy_", "rand", generator) - 0.5) * math.pi).tan() * sigma + median

    return _filled(x, "cauchy_", make)


@lenient
def geometric_(x: Any, p: float, generator: Any = None) -> Any:
    """Fill with the numbers of trials until one of probability p succeeds."""
    _check("geometric_", 0 < p < 1, f"p={p}", "a number between 0 and 1")
    uniform = functions["rand"]
    return _filled(
        x,
        "geometric_",
        lambda: (
            ((-uniform(x.shape, device=x.device, generator=generator)).log1p() / math.log1p(-p))
            .ceil()
            .clamp(min=1)
        ),
    )


@lenient
def random_(
    x: Any, start: int = 0, to: int | None = None, *, generator: Any = None, **ends: int
) -> Any:
    """Fill with whole numbers from `from` to before `to`; `random_(to)` from 0.

    By default to the largest below which the dtype has all whole numbers.
    """
    if to is None and start:
        start, to = 0, start
    start = ends.pop("from", start)
    dtype = DTYPES[x.dtype]
    most = _EXACT.get(x.dtype) or (2 if x.dtype == "bool" else dtype.numpy.itemsize * 8)
    if to is None:
        to = most if dtype.floating or x.dtype == "bool" else 2 ** (most - (x.dtype != "uint8"))
        to = min(to, 2**63 - 1)
    return _filled(
        x,
        "random_",
        lambda: functions["randint"](start, to, x.shape, device=x.device, generator=generator),
    )


SAMPLERS: Final[dict[str, Callable[..., Any]]] = {
    method.__name__: method
    for method in (
        uniform_,
        normal_,
        log_normal_,
        exponential_,
        cauchy_,
        geometric_,
        random_,
    )
}
