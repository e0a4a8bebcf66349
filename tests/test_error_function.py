"""erf and erfc for arrays are the C library's, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netcl_core.codegen.emit import NUMPY_FUNCTIONS

SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    0.5,
    -1.25,
    6.0,
    28.0,
    30.0,
    -30.0,
    5e-324,
    1e300,
]


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_special_values(name: str) -> None:
    found = NUMPY_FUNCTIONS[name](np.array(SPECIAL))
    wanted = np.array([getattr(math, name)(value) for value in SPECIAL])
    np.testing.assert_array_equal(found.view(np.int64)[:4], wanted.view(np.int64)[:4])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["erf", "erfc"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 5000)])
def test_shapes_and_dtypes_stay(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    given = np.full(shape, 0.5, dtype)
    for array in (given, given.T, given[..., ::2] if shape else given):
        found = NUMPY_FUNCTIONS[name](array)
        assert (found.dtype, found.shape) == (np.dtype(dtype), array.shape)
        np.testing.assert_array_equal(found, np.full(array.shape, getattr(math, name)(0.5), dtype))
