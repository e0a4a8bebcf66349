"""Properties that hold for all shapes, dtypes and values, searched by hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from netcl_plugin_elementwise.conformance import CASES
from netcl_plugin_kit.testing import FLOATS, Case, check_values

import netcl_core as nc
import netcl_core.autograd as ag

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402 - after importorskip
from hypothesis import strategies as st  # noqa: E402
from hypothesis.extra import numpy as hnp  # noqa: E402

pytest.importorskip("torch")
FAST = settings(max_examples=examples(60), deadline=None)
SLOW = settings(max_examples=examples(12), deadline=None)
SHAPES = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=6, max_side=5)
WIDE = hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=300)
FLOATING = [case for case in CASES if "float32" in case.takes]
#: Those that take any shapes that broadcast.
FREE = [case for case in FLOATING if not case.excuse("broadcasting")]
TWO = [case for case in FREE if len(case.inputs) == 2]


@FAST
@given(case=st.sampled_from(TWO), shapes=SHAPES, dtype=st.sampled_from(["float32", "float64"]))
def test_any_broadcast_on_numpy(case: Case, shapes: Any, dtype: str) -> None:
    check_values(case, shapes.input_shapes, nc.get_device("numpy"), dtype)


@SLOW
@given(shapes=SHAPES)
def test_any_broadcast_on_opencl(shapes: Any) -> None:
    case = next(case for case in CASES if case.op == "mul")
    try:
        device = nc.get_device("opencl")
    except nc.errors.DeviceError as error:
        pytest.skip(str(error))
    check_values(case, shapes.input_shapes, device, "float32")


@FAST
@given(case=st.sampled_from(FREE), shape=WIDE, dtype=st.sampled_from(FLOATS))
def test_any_shape(case: Case, shape: tuple[int, ...], dtype: str) -> None:
    check_values(case, [shape] * len(case.inputs), nc.get_device("numpy"), dtype)


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
    for device in ("numpy", "opencl"):
        try:
            scope = nc.use_device(device)
        except nc.errors.DeviceError:
            continue
        with scope:
            out = getattr(ag, op)(nc.tensor(x), nc.tensor(y)).to_host()
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(out, numpy[op](x, y))
