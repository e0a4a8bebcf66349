"""Samples: how a case's inputs are drawn, and the values that break naive formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from netcl_core import DTYPES
from netcl_core.inspect.data import FLOATS as FLOATS
from netcl_core.inspect.data import Array, Shape
from netcl_core.inspect.data import is_floating as is_floating

#: `(random, shape) -> array`. Floating arrays are converted to the dtype under test and get a
#: gradient; integer and bool arrays (indices, masks) stay as they are.
Sampler: TypeAlias = Callable[[np.random.Generator, Shape], Array]

INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")
#: Zeros of both signs, ties, kinks, infinities, NaN.
MILD: Final = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5, 2.5, np.inf, -np.inf, np.nan)
#: And arguments with which a formula cancels or overflows.
SPECIAL: Final = (*MILD, 1e-8, -1e-8, 30.0, -30.0, 100.0, -100.0)


def normal(scale: float = 1.0) -> Sampler:
    """Normally distributed numbers, in any shape.

    >>> normal(2.0)(np.random.default_rng(0), (2, 3)).dtype
    dtype('float64')

    Args:
        scale: The standard deviation.
    """
    return lambda random, shape: np.asarray(scale * random.standard_normal(shape))


def uniform(low: float, high: float) -> Sampler:
    """Numbers from `low` to `high`.

    >>> uniform(0, 1)(np.random.default_rng(0), (2, 3)).dtype
    dtype('float64')
    """
    return lambda random, shape: np.asarray(random.uniform(low, high, shape))


def whole(low: int, high: int) -> Sampler:
    """Whole numbers from `low` to `high`, both included, of the dtype under test.

    >>> whole(-5, 5)(np.random.default_rng(0), (2, 3)).dtype
    dtype('float64')
    """
    return lambda random, shape: np.asarray(random.integers(low, high + 1, shape), np.float64)


def indices(count: int, dtype: str = "int64") -> Sampler:
    """Indices from 0 to `count - 1`, of this dtype whatever the dtype under test.

    >>> indices(10)(np.random.default_rng(0), (2, 3)).dtype
    dtype('int64')
    """
    return lambda random, shape: np.asarray(random.integers(0, count, shape)).astype(dtype)


def masks() -> Sampler:
    """Bools, half of them true.

    >>> masks()(np.random.default_rng(0), (2, 3)).dtype
    dtype('bool')
    """
    return lambda random, shape: np.asarray(random.uniform(size=shape) < 0.5)


def in_dtype(array: Array, dtype: str) -> Array:
    """Floating data in the dtype under test; for whole dtypes rounded and, if need be, positive."""
    if not is_floating(array) or DTYPES[dtype].floating:
        with np.errstate(invalid="ignore"):  # of NaN, by ml_dtypes
            return array.astype(DTYPES[dtype].numpy) if is_floating(array) else array
    if dtype == "bool":
        return np.asarray(array > 0)
    rounded = np.rint(array)
    return np.asarray(np.abs(rounded) if dtype == "uint8" else rounded).astype(dtype)
