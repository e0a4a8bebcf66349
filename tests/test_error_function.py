"""erf and erfc for arrays agree with the C library's, element by element."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.error_function import erf, erfc

SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 0.84375, -0.84375, 1.25, -1.25, 1 / 0.35,
           6.0, 7.0, 26.0, 28.0, 30.0, -30.0, 5e-324, 1e300, 0.25]  # fmt: skip


def given() -> Any:
    rng = np.random.default_rng(0)
    scales = (1e-300, 1e-8, 0.1, 1.0, 3.0, 10.0)
    return np.concatenate([*(rng.normal(size=20_000) * scale for scale in scales), SPECIAL])


@pytest.mark.parametrize(
    ("ours", "exact", "units"), [(erf, math.erf, 1), (erfc, math.erfc, 4)], ids=["erf", "erfc"]
)
def test_accuracy(ours: Any, exact: Any, units: int) -> None:
    x = given()
    with np.errstate(all="ignore"):
        found = ours(x)
        wanted = np.array([exact(value) for value in x])
        off = np.abs(found - wanted) / np.spacing(np.abs(wanted))
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    assert ((off <= units) | same).all()
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 5000)])
def test_shapes_and_dtypes_stay(dtype: str, shape: tuple[int, ...]) -> None:
    for function in (erf, erfc):
        found = function(np.full(shape, 0.5, dtype))
        assert (found.dtype, found.shape) == (np.dtype(dtype), shape)


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
    assert peak < 4 * found.to_host().nbytes
