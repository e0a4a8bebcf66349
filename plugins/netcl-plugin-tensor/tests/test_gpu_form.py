"""The kernels that GPUs get, run by the CPU runtimes at hand; no other test has these shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import FLOATS, TOLERANCE, Case, check_values, normal, usable_devices
from netcl_plugin_tensor import reducing_gpu

import netcl_core as nc
import netcl_core.autograd as ag

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
ALL = ("bool", "uint8", "int32", "int64", *FLOATS)
FEW = settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
#: One device for shapes drawn at random: each shape builds a program.
ANY = OPENCL[:1]


@pytest.fixture(params=OPENCL, ids=str)
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[nc.Device]:
    """An OpenCL device that is taken for a GPU."""
    monkeypatch.setattr(request.param, "kind", "gpu")
    with nc.use_device(request.param) as found:
        yield found


# -- reductions ------------------------------------------------------------------------


def values(shape: tuple[int, ...], dtype: str) -> Any:
    """Small numbers, exact in every dtype but for their sums in 16 bits."""
    drawn = np.random.default_rng(sum(shape)).integers(0, 9, shape)
    return drawn.astype(dtype) if dtype in ("bool", "uint8") else (drawn - 4).astype(dtype)


def check_reductions(shape: tuple[int, ...], over: tuple[int, ...], dtype: str) -> None:
    """sum and max against NumPy in float64; whole numbers are exact."""
    x = values(shape, dtype)
    tensor = nc.tensor(x)
    given = ag.sum(tensor, over).to_host()
    wanted = x.astype("float64").sum(over)
    rtol = TOLERANCE[given.dtype.name] if given.dtype.itemsize == 2 else 0
    np.testing.assert_allclose(given.astype("float64"), wanted, rtol)
    np.testing.assert_array_equal(ag.amax(tensor, over).to_host(), x.max(over))


@pytest.mark.skipif(not ANY, reason="no OpenCL device")
@FEW
@given(data=st.data())
def test_reductions_of_any_shape(data: st.DataObject, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = st.sampled_from((1, 2, 3, 4, 7, 8, 31, 64, 129))
    shape = tuple(data.draw(st.lists(sizes, min_size=1, max_size=4)))
    while np.prod(shape) > 1 << 20:
        shape = shape[1:]
    over = data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))
    with monkeypatch.context() as patch, nc.use_device(ANY[0]):
        patch.setattr(ANY[0], "kind", "gpu")
        check_reductions(shape, tuple(over), data.draw(st.sampled_from(ALL)))


@pytest.mark.parametrize(
    ("shape", "over"),
    [((1,), (0,)), ((131_101,), (0,)), ((3, 8191), (1,)), ((1031, 64), (0,)), ((1031, 7), (0,)),
     ((5, 6, 7, 8), (1, 3)), ((5, 6, 7, 9), (0, 2)), ((3, 5000, 3), (1,))],
    ids=str,
)  # fmt: skip
def test_reductions_of_every_layout(
    device: nc.Device, shape: tuple[int, ...], over: tuple[int, ...]
) -> None:
    check_reductions(shape, over, "float32")


@pytest.mark.parametrize("shape", [(70_001,), (2, 9000), (9000, 3), (40, 30, 12)], ids=str)
def test_slices_do_not_depend_on_the_size_of_the_device(
    device: nc.Device, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many slices, and work-groups as small as a device may want them."""
    monkeypatch.setattr(reducing_gpu, "_BEFORE_SLICING", 0)
    monkeypatch.setattr(device, "compute_units", 999)
    monkeypatch.setattr(device, "max_work_group_size", 48)
    monkeypatch.setattr(device, "local_mem_bytes", 300)
    for over in {(0,), (len(shape) - 1,)}:
        check_reductions(shape, over, "int32")


def test_a_sum_of_2_to_the_24_tenths_is_accurate(device: nc.Device) -> None:
    exact = 2**24 * float(np.float32(0.1))
    found = [ag.sum(nc.Tensor.full((2**24,), 0.1)).item() for _ in range(2)]
    assert found[0] == found[1]
    assert abs(found[0] / exact - 1) < 1e-6


@pytest.mark.parametrize("place", [0, 5, 8190])
def test_nan_propagates(device: nc.Device, place: int) -> None:
    x = np.zeros((2, 8191), "float32")
    x[1, place] = np.nan
    for op in (ag.amax, ag.amin, ag.sum):
        np.testing.assert_array_equal(np.isnan(op(nc.tensor(x), 1).to_host()), [False, True])
        assert np.isnan(op(nc.tensor(x), 0).to_host()).sum() == 1


# -- rows ------------------------------------------------------------------------------

#: Several teams per work-group, a work-group per row, rows that no registers hold; aligned and not.
SIZES = (12, 1023, 1024, 4100)
X = normal(3)


def soft(op: str) -> Case:
    """softmax or log_softmax of rows."""
    return Case(op, (X,), op, {"dim": -1})


def layer_norm(t: Any, x: Any, w: Any, b: Any) -> Any:
    """PyTorch's layer_norm over the axes of the weight."""
    return t.nn.functional.layer_norm(x, w.shape, w, b)


def rms_norm(t: Any, x: Any, w: Any) -> Any:
    """PyTorch's rms_norm over the axes of the weight."""
    return t.nn.functional.rms_norm(x, w.shape, w, 1e-6)


NORMS = (
    Case("layer_norm", (X, X, X), layer_norm, call=lambda x, w, b: ag.layer_norm(x, w.shape, w, b)),
    Case("rms_norm", (X, X), rms_norm, call=lambda x, w: ag.rms_norm(x, w.shape, w, 1e-6)),
    Case("layer_norm", (X,), lambda t, x: t.nn.functional.layer_norm(x, x.shape[-1:]), note="plain",
         call=lambda x: ag.layer_norm(x, x.shape[-1])),
)  # fmt: skip
CASES = (soft("softmax"), soft("log_softmax"), *NORMS)


def check_rows(case: Case, rows: int, size: int, device: nc.Device, dtype: str) -> None:
    """Values and gradients of some rows."""
    shapes = [(rows, size), (size,), (size,)][: len(case.inputs)]
    check_values(case, shapes, device, dtype)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_rows_of_every_layout(case: Case, size: int, device: nc.Device) -> None:
    check_rows(case, 3, size, device, "float32")


@pytest.mark.skipif(not ANY, reason="no OpenCL device")
@FEW
@given(
    case=st.sampled_from(CASES),
    rows=st.sampled_from((1, 2, 65, 300)),
    size=st.integers(2, 300) | st.sampled_from((4095, 4096)),
    dtype=st.sampled_from(FLOATS),
)
def test_rows_of_any_shape(
    case: Case, rows: int, size: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ANY[0], "kind", "gpu")
        check_rows(case, rows, size, ANY[0], dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_row_of_one_element_has_no_slope(device: nc.Device, dtype: str) -> None:
    """Exactly none, where PyTorch's float64 leaves what did not cancel of 1 / sqrt(eps)."""
    x = nc.tensor(np.array([[3.0], [-4.5]]), dtype=dtype, requires_grad=True)
    w = nc.tensor(np.array([7.0]), dtype=dtype)
    result = ag.layer_norm(x, 1, w, w)
    np.testing.assert_array_equal(result.to_host(), [[7.0], [7.0]])
    ag.backward(result, np.array([[1.25], [-2.0]], dtype))
    np.testing.assert_array_equal(x.grad.to_host(), [[0.0], [0.0]])


def test_gradients_of_weights_over_many_rows(
    device: nc.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than teams, so that each team adds up several; the last one has none."""
    monkeypatch.setattr(device, "compute_units", 1)
    for rows, size in ((1001, 6), (301, 260)):
        check_rows(NORMS[0], rows, size, device, "float32")


def test_softmax_of_large_numbers_does_not_overflow(device: nc.Device) -> None:
    x = nc.tensor(np.array([[1e4, 0.0, -1e4]], "float32"))
    np.testing.assert_allclose(ag.softmax(x).to_host(), [[1, 0, 0]])
    np.testing.assert_allclose(ag.log_softmax(x).to_host(), [[0, -1e4, -2e4]])


def test_group_norm_takes_whole_groups_as_rows(device: nc.Device) -> None:
    case = Case("group_norm", (X, X, X), lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b),
                call=lambda x, w, b: ag.group_norm(x, 2, w, b))  # fmt: skip
    check_values(case, [(4, 6, 5), (6,), (6,)], device, "float32")


def test_norms_take_the_kernels_for_rows(device: nc.Device) -> None:
    x, w = nc.tensor(np.ones((3, 4), "float32")), nc.tensor(np.ones(4, "float32"))
    assert ag.layer_norm(x, 4, w, w).op_name == "layer_norm"
    assert ag.rms_norm(x, 4, w).op_name == "rms_norm"


def test_odd_weights_are_left_to_other_ops(device: nc.Device) -> None:
    """A bias alone, and a weight of another dtype."""
    x, other = np.ones((3, 4), "float32"), np.full(4, 2.0)
    bias = ag.layer_norm(nc.tensor(x), 4, None, nc.tensor(other.astype("float32")))
    weight = ag.layer_norm(nc.tensor(x), 4, nc.tensor(other.astype("float16")))
    np.testing.assert_allclose(bias.to_host(), np.full((3, 4), 2.0), atol=1e-2)
    np.testing.assert_allclose(weight.to_host(), np.zeros((3, 4)), atol=1e-2)
