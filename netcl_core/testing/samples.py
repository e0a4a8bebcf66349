"""Samples: how a case's inputs are drawn, and the values that break naive formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.tensors.host_data import Array, Shape

#: `(random, shape) -> array`. Floating arrays are converted to the dtype under test and get a
#: gradient; integer and bool arrays (indices, masks) stay as they are.
Sampler: TypeAlias = Callable[[np.random.Generator, Shape], Array]

FLOATS: Final = ("float16", "float32", "float64")
INTEGERS: Final = ("uint8", "int32", "int64")
#: Zeros of both signs, ties, kinks, infinities, NaN.
MILD: Final = (0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 0.5, 2.5, np.inf, -np.inf, np.nan)
#: And arguments with which a formula cancels or overflows.
SPECIAL: Final = (*MILD, 1e-8, -1e-8, 30.0, -30.0, 100.0, -100.0)


def normal(scale: float = 1.0) -> Sampler:
    """Normally distributed numbers.

    >>> normal(2.0)(np.random.default_rng(0), (2, 3)).dtype
    dtype('float64')
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


def is_floating(array: Any) -> bool:
    """Whether an input is data of the dtype under test, not indices or a mask."""
    return bool(array.dtype.kind == "f")


def in_dtype(array: Array, dtype: str) -> Array:
    """Floating data in the dtype under test; for whole dtypes rounded and, if need be, positive."""
    if not is_floating(array) or DTYPES[dtype].floating:
        return array.astype(dtype) if is_floating(array) else array
    if dtype == "bool":
        return np.asarray(array > 0)
    rounded = np.rint(array)
    return np.asarray(np.abs(rounded) if dtype == "uint8" else rounded).astype(dtype)


def covector(shape: Shape, dtype: str) -> Array:
    """An upstream gradient of both signs, exact in every dtype."""
    pattern = (5 * np.arange(np.prod(shape, dtype=int)) % 11 - 5.25) / 4
    return pattern.reshape(shape).astype(dtype)


def pairs_of(values: Sequence[float], count: int) -> list[Array]:
    """All pairs of the values as two inputs, turned a little more for each further one."""
    first, second = (axis.reshape(-1) for axis in np.meshgrid(values, values))
    further = [np.roll(second, 5 * i) for i in range(1, count - 1)]
    return [each.astype(np.float64) for each in (first, second, *further)[:count]]


def for_inputs(shapes: Sequence[Shape], count: int) -> list[Shape]:
    """A shape for each of so many inputs; they are repeated where there are too few."""
    return [shapes[i % len(shapes)] for i in range(count)]


def strided(array: Array) -> Array:
    """The same values with gaps between them in memory, in Fortran's order."""
    wide = np.zeros(tuple(2 * size for size in array.shape), array.dtype, order="F")
    view = np.asarray(wide[tuple(slice(None, None, 2) for _ in array.shape)])  # 0-d: a scalar
    view[...] = array
    return view


def away_from(array: Array, kinks: Sequence[float]) -> Array:
    """Floating data with every value at least 0.01 away from the kinks."""
    for kink in kinks if is_floating(array) else ():
        near = np.abs(array - kink) < 0.01
        array = np.where(near, kink + np.where(array < kink, -0.01, 0.01), array)
    return array
