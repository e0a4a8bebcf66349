"""erf and erfc for arrays are the C library's, element by element."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
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


def test_an_array_is_no_array_of_numbers_of_python(on_numpy: None) -> None:
    """Each would take 32 bytes beside the 4 of the result."""
    x = nc.tensor(np.random.default_rng(1).normal(size=1 << 18).astype(np.float32))
    ag.erf(x)
    tracemalloc.start()
    try:
        found = ag.erf(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * found.to_host().nbytes
