"""Reductions and softmax: accuracy, what their cases do not say, errors."""

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((5, 17, 19))


@pytest.mark.parametrize("shape", [(1,), (2, 1), (3, 70001), (30011, 7), (2, 3, 4099)])
@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_long_axes_are_cut_into_slices(shape: tuple[int, ...], device: nc.Device) -> None:
    x = RANDOM.standard_normal(shape).astype("float32")
    tensor = nc.Tensor.from_host(x, device)
    for axis in range(len(shape)):
        wanted = x.astype("float64").sum(axis)
        np.testing.assert_allclose(ag.sum(tensor, axis).to_host(), wanted, 1e-4, 1e-3)
        np.testing.assert_array_equal(ag.amax(tensor, axis).to_host(), x.max(axis))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_a_sum_of_2_to_the_24_tenths_is_accurate(device: nc.Device) -> None:
    exact = 2**24 * float(np.float32(0.1))
    found = ag.sum(nc.Tensor.full((2**24,), 0.1, device=device)).item()
    assert abs(found / exact - 1) < 1e-6


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_integers_are_summed_exactly_in_int64(device: nc.Device) -> None:
    big = np.array([2**31 - 1, 2**31 - 1, 5], dtype="int32")
    found = ag.sum(nc.Tensor.from_host(big, device))
    assert found.dtype == "int64"
    assert found.item() == 2**32 + 3
    assert ag.sum(nc.Tensor.from_host(big > 5, device)).item() == 2
    assert ag.max(nc.Tensor.from_host(big, device)).item() == 2**31 - 1


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_empty_reductions(device: nc.Device) -> None:
    empty = nc.Tensor.zeros((0, 3), device=device)
    np.testing.assert_array_equal(ag.sum(empty, 0).to_host(), np.zeros(3))
    assert np.isnan(ag.mean(empty).item())
    assert ag.sum(empty, 1).shape == (0,)
    with pytest.raises(ShapeError, match="max: no elements"):
        ag.max(empty)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_softmax_of_large_numbers_does_not_overflow(device: nc.Device) -> None:
    x = nc.Tensor.from_host(np.array([[1e4, 0.0, -1e4]], "float32"), device)
    np.testing.assert_allclose(ag.softmax(x).to_host(), [[1, 0, 0]])
    np.testing.assert_allclose(ag.log_softmax(x).to_host(), [[0, -1e4, -2e4]])


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_nan_propagates_through_max(device: nc.Device) -> None:
    x = nc.Tensor.from_host(np.array([1.0, np.nan, 2.0], "float32"), device)
    assert np.isnan(ag.max(x).item())
    assert np.isnan(ag.min(x).item())


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.sum(x, 3), AttributeValueError, "axis 3 of a tensor with 3 dimensions"),
        (lambda x: ag.sum(x, (0, 0)), AttributeValueError, "each axis once"),
        (lambda x: ag.sum(x, 0.5), AttributeValueError, "an int"),
        (lambda x: ag.mean(x.astype("int32")), DtypeError, "mean: a int32 tensor"),
        (lambda x: ag.softmax(x.astype("int64")), DtypeError, "softmax: a int64 tensor"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.from_host(X, dtype="float32"))
