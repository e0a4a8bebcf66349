"""unscale_grads_: gradients divided by a scale on the device, and a flag for what is not finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import recorded, usable_devices

import netcl_core as nc
from netcl_core import Device, optim
from netcl_core.errors import ArgumentError, DeviceError

OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)


def with_gradient(array: Any, device: Device) -> nc.Tensor:
    parameter = nc.Tensor.zeros(array.shape, array.dtype, device)
    parameter.grad = nc.tensor(array, device)
    return parameter


def divided(arrays: list[Any], scale: float, device: Device) -> tuple[list[Any], int]:
    """The gradients afterwards, and the flag."""
    parameters = [with_gradient(array, device) for array in arrays]
    flag = nc.Tensor.zeros((1,), "int32", device)
    optim.unscale_grads_(iter(parameters), nc.Tensor.full((), scale, "float32", device), flag)
    return [p.grad.numpy() for p in parameters if p.grad is not None], flag.item()


@everywhere
@pytest.mark.parametrize("scale", [1.0, 65536.0, 1000.0, 2.0**-126, 2.0**126])
def test_values(device: Device, scale: float) -> None:
    random = np.random.default_rng(0)
    dtypes = ("float16", "float32", *(["float64"] * device.supports_fp64))
    shapes = [(), (0, 3), (7, 5), (4099,), *((k,) for k in range(1, 50))]
    arrays = [np.asarray(random.standard_normal(s)).astype(d) for d in dtypes for s in shapes]
    found, flag = divided(arrays, scale, device)
    assert flag == 0
    for array, value in zip(arrays, found, strict=True):
        wide = array.astype("float64" if array.dtype == "float64" else "float32")
        with np.errstate(all="ignore"):
            right = (wide * (wide.dtype.type(1) / wide.dtype.type(scale))).astype(array.dtype)
        np.testing.assert_allclose(value, right, rtol=1e-3 if array.dtype == "float16" else 3e-7)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["float16", "float32"]),
    st.integers(1, 70),
    st.integers(0, 69),
    st.sampled_from([np.inf, -np.inf, np.nan, "largest", "smallest"]),
)
def test_one_element_anywhere(dtype: str, size: int, place: int, value: Any) -> None:
    limits = {"largest": np.finfo(dtype).max, "smallest": np.finfo(dtype).smallest_subnormal}
    array = np.ones(size, dtype)
    array[place % size] = limits.get(value, value)
    for device in (nc.get_device("numpy"), *OPENCL[:1]):
        _, flag = divided([np.ones(3, dtype), array], 4.0, device)
        assert flag == (value not in limits)


@everywhere
def test_a_flag_that_is_set_stays(device: Device) -> None:
    parameter = with_gradient(np.ones(3, np.float32), device)
    flag = nc.tensor([1], device, "int32")
    optim.unscale_grads_(parameter, nc.Tensor.full((), 2.0, device=device), flag)
    assert flag.item() == 1 and parameter.grad.numpy().tolist() == [0.5] * 3


@pytest.mark.parametrize("device", OPENCL, ids=str)
def test_launches(device: Device) -> None:
    kinds = ["float32"] * 49 + ["float16"]
    with recorded(device) as stream:
        divided([np.ones(3, kind) for kind in kinds], 2.0, device)
    assert stream.launched == ["gradient_unscale"] * 3


def test_mistakes() -> None:
    here = nc.get_device("numpy")
    parameter = with_gradient(np.ones(3, np.float32), here)
    scale, flag = nc.Tensor.full((), 2.0, device=here), nc.Tensor.zeros((1,), "int32", here)
    with pytest.raises(ArgumentError, match=r"scale of float64 .* float32 of one element"):
        optim.unscale_grads_([parameter], nc.Tensor.full((), 2.0, "float64", here), flag)
    with pytest.raises(ArgumentError, match=r"found_inf of int32 and shape \(2,\)"):
        optim.unscale_grads_([parameter], scale, nc.Tensor.zeros((2,), "int32", here))
    for device in OPENCL[:1]:
        with pytest.raises(DeviceError, match="and scale or found_inf on"):
            optim.unscale_grads_([parameter], scale, nc.Tensor.zeros((1,), "int32", device))
        other = with_gradient(np.ones(3, np.float32), device)
        with pytest.raises(DeviceError, match="gradients on"):
            optim.unscale_grads_([parameter, other], scale, flag)
    assert parameter.grad.numpy().tolist() == [1.0] * 3
    optim.unscale_grads_([], scale, flag)
