"""Properties that hold for all shapes, dtypes and values, searched by hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from elementwise_oracle import check_eager
from elementwise_table import ROWS

import netcl_core as nc
import netcl_core.autograd as ag

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402 - after importorskip
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402

pytest.importorskip("torch")
FAST = settings(max_examples=60, deadline=None, derandomize=True)
SLOW = settings(max_examples=12, deadline=None, derandomize=True)
SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=6, max_side=5)
WIDE = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=300)
TWO = [row for row in ROWS if len(row.ranges) == 2]


@FAST
@given(row=st.sampled_from(TWO), shapes=SHAPES, dtype=st.sampled_from(["float32", "float64"]))
def test_any_broadcast_on_numpy(row: Any, shapes: Any, dtype: str) -> None:
    with nc.use_device("cpu"):
        check_eager(row, shapes.input_shapes, dtype)


@SLOW
@given(shapes=SHAPES)
def test_any_broadcast_on_opencl(shapes: Any) -> None:
    row = next(row for row in ROWS if row.op == "mul")
    try:
        scope = nc.use_device("opencl")
    except nc.errors.DeviceError as error:
        pytest.skip(str(error))
    with scope:
        check_eager(row, shapes.input_shapes, "float32")


@FAST
@given(
    row=st.sampled_from(ROWS),
    shape=WIDE,
    dtype=st.sampled_from(["float16", "float32", "float64"]),
)
def test_any_shape(row: Any, shape: tuple[int, ...], dtype: str) -> None:
    with nc.use_device("cpu"):
        check_eager(row, [shape] * len(row.ranges), dtype)


@FAST
@given(
    dtype=st.sampled_from(["uint8", "int32", "int64", "bool"]),
    data=st.data(),
    op=st.sampled_from(["add", "mul", "sub", "maximum", "minimum", "lt", "eq"]),
)
def test_integers_wrap_as_in_numpy(dtype: str, data: Any, op: str) -> None:
    arrays = hnp.arrays(dtype, 5)
    x, y = data.draw(arrays), data.draw(arrays)
    if dtype == "bool" and op == "sub":  # NumPy refuses
        return
    numpy = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "maximum": np.maximum,
             "minimum": np.minimum, "lt": np.less, "eq": np.equal}  # fmt: skip
    for device in ("cpu", "opencl"):
        try:
            scope = nc.use_device(device)
        except nc.errors.DeviceError:
            continue
        with scope:
            out = getattr(ag, op)(nc.tensor(x), nc.tensor(y)).to_host()
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, numpy[op](x, y))
