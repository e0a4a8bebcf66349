"""Windows of samples, by PyTorch's names: nc.signal.windows, and nc.hann_window and its like.

    >>> nc.signal.windows.hamming(3).tolist()
    [0.07999999821186066, 1.0, 0.07999999821186066]

Each has M, the number of samples, and `sym`: False gives the first M of a symmetric window of
M + 1, whose copies one behind the other are periodic. Formulas: Harris 1978, On the use of windows.
"""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import netcl_core as nc
from netcl_core.errors import ArgumentError, AttributeValueError, message


def _made(who: str, M: Any, sym: bool, dtype: Any, device: Any, requires_grad: bool,
          formula: Callable[[Any, int], Any]) -> Any:  # fmt: skip
    if isinstance(M, bool) or not isinstance(M, int) or M < 0:
        raise AttributeValueError(message(who, f"M={M!r}", "an int of at least 0"))
    size = M if sym else M + 1
    with np.errstate(all="ignore"):  # what overflows is NaN, as in PyTorch
        values = np.ones(M) if M < 2 else formula(np.arange(M), size)
    window = nc.tensor(values, dtype="float32" if dtype is None else dtype, device=device)
    return window.requires_grad_(True) if requires_grad else window


def _is_finite(value: Any) -> bool:
    try:
        return bool(np.isfinite(np.asarray(value, np.float64)).all())
    except (TypeError, ValueError):
        return False


def _window(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A window from its formula, which takes the places, the size and its own arguments."""

    @functools.wraps(formula)
    def window(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None,
               requires_grad: bool = False, **own: Any) -> Any:  # fmt: skip
        given = inspect.signature(formula).parameters
        if own.keys() - given:
            name = next(iter(own.keys() - given))
            expected = ", ".join(["M", *[*given][2:], "sym", "dtype", "device", "requires_grad"])
            raise ArgumentError(message(formula.__name__, f"the argument {name!r}", expected))

        for name, value in own.items():
            if value is not None and not _is_finite(value):
                raise AttributeValueError(message(formula.__name__, f"{name}={value!r}", "finite"))

        def values(n: Any, size: int) -> Any:
            return formula(n, size, **own)

        return _made(formula.__name__, M, sym, dtype, device, requires_grad, values)

    return window


def _cosines(n: Any, size: int, factors: Iterable[float]) -> Any:
    turns = 2 * np.pi * n / (size - 1)
    return sum((-1) ** k * a * np.cos(k * turns) for k, a in enumerate(factors))


@_window
def general_cosine(n: Any, size: int, *, a: Iterable[float]) -> Any:
    """The sum of (-1)^k a[k] cos(2 pi k n / (M - 1))."""
    return _cosines(n, size, a)


@_window
def general_hamming(n: Any, size: int, *, alpha: float = 0.54) -> Any:
    """alpha - (1 - alpha) cos(2 pi n / (M - 1))."""
    return _cosines(n, size, (alpha, 1 - alpha))


@_window
def hamming(n: Any, size: int) -> Any:
    """0.54 - 0.46 cos(2 pi n / (M - 1))."""
    return _cosines(n, size, (0.54, 0.46))


@_window
def hann(n: Any, size: int) -> Any:
    """0.5 - 0.5 cos(2 pi n / (M - 1))."""
    return _cosines(n, size, (0.5, 0.5))


@_window
def blackman(n: Any, size: int) -> Any:
    """0.42 - 0.5 cos(2 pi n / (M - 1)) + 0.08 cos(4 pi n / (M - 1))."""
    return _cosines(n, size, (0.42, 0.5, 0.08))


@_window
def nuttall(n: Any, size: int) -> Any:
    """Four cosines with sides below -93 dB (Nuttall 1981)."""
    return _cosines(n, size, (0.3635819, 0.4891775, 0.1365995, 0.0106411))


@_window
def bartlett(n: Any, size: int) -> Any:
    """A triangle from 0 to 1 to 0."""
    return 1 - np.abs(2 * n / (size - 1) - 1)


@_window
def cosine(n: Any, size: int) -> Any:
    """sin(pi (n + 0.5) / M)."""
    return np.sin(np.pi * (n + 0.5) / size)


@_window
def exponential(n: Any, size: int, *, center: float | None = None, tau: float = 1.0) -> Any:
    """exp(-|n - center| / tau)."""
    return np.exp(-np.abs(n - ((size - 1) / 2 if center is None else center)) / tau)


@_window
def gaussian(n: Any, size: int, *, std: float = 1.0) -> Any:
    """exp(-(n - (M - 1) / 2)^2 / (2 std^2))."""
    return np.exp(-(((n - (size - 1) / 2) / std) ** 2) / 2)


@_window
def kaiser(n: Any, size: int, *, beta: float = 12.0) -> Any:
    """i0(beta sqrt(1 - x^2)) / i0(beta), x from -1 to 1."""
    inner = np.sqrt(np.clip(1 - (2 * n / (size - 1) - 1) ** 2, 0, 1))
    return np.i0(beta * inner) / np.i0(beta)
