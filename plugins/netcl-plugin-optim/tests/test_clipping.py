"""Clipping equals PyTorch's on every device, in few launches, and waits for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import recorded, usable_devices
from netcl_plugin_optim import gradients

import netcl_core as nc
from netcl_core import Device, nn, optim
from netcl_core.errors import AttributeValueError, DeviceError, GradientError

torch = pytest.importorskip("torch")

everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
SHAPES = [(), (16,), (7, 5), (3, 4097)]
NORMS = [2.0, 1, 0.5, 3.0, float("inf")]


def arrays(dtype: str) -> list[Any]:
    random = np.random.default_rng(5)
    return [np.asarray(random.standard_normal(shape), dtype) for shape in SHAPES]


def parameters(device: Device, dtype: str = "float32", values: Any = None) -> list[Any]:
    """Parameters with gradients, and one without."""
    found = [nn.Parameter(nc.Tensor.zeros((2,), dtype, device))]
    for value in arrays(dtype) if values is None else values:
        parameter = nn.Parameter(nc.tensor(np.zeros_like(value), device))
        parameter.grad = nc.tensor(value, device)
        found.append(parameter)
    return found


def reference(dtype: str, values: Any = None) -> list[Any]:
    found = []
    for value in arrays(dtype) if values is None else values:
        parameter = torch.zeros(value.shape, dtype=torch.float64, requires_grad=True)
        parameter.grad = torch.tensor(value.astype(np.float64))
        found.append(parameter)
    return found


def compare(ours: list[Any], theirs: list[Any], rtol: float) -> None:
    for mine, other in zip(ours[1:], theirs, strict=True):
        np.testing.assert_allclose(mine.grad.to_host(), other.grad, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("kind", [None, "gpu"])
@pytest.mark.parametrize(
    ("dtype", "rtol"), [("float16", 2e-3), ("float32", 2e-6), ("float64", 1e-12)]
)
@pytest.mark.parametrize("norm_type", NORMS)
def test_norms_equal_pytorch(
    norm_type: float, dtype: str, rtol: float, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `kind` a CPU runtime runs the kernels that GPUs get."""
    for device in usable_devices(dtype):
        if kind is not None and device.backend == "opencl":
            monkeypatch.setattr(device, "kind", kind)
            optim_caches_clear()
        for max_norm in (0.5, 1e9):
            ours, theirs = parameters(device, dtype), reference(dtype)
            norm = optim.clip_grad_norm_(iter(ours), max_norm, norm_type)
            expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
            assert norm.shape == () and norm.device is device
            assert norm.dtype == ("float64" if dtype == "float64" else "float32")
            assert norm.item() == pytest.approx(expected.item(), rel=max(rtol, 1e-12))
            compare(ours, theirs, rtol)
            assert ours[0].grad is None
    optim_caches_clear()


def optim_caches_clear() -> None:
    """Forget the launches that were made for another kind of device."""
    for made in (gradients._powers, gradients._total, gradients._change):
        made.cache_clear()


@everywhere
def test_values_equal_pytorch(device: Device) -> None:
    for dtype in ("float16", "float32"):
        ours, theirs = parameters(device, dtype), reference(dtype)
        optim.clip_grad_value_(ours, 0.5)
        torch.nn.utils.clip_grad_value_(theirs, 0.5)
        compare(ours, theirs, 0)
    one = nn.Parameter(nc.tensor(np.zeros(2, np.float32), device))
    one.grad = nc.tensor(np.array([np.nan, -7], np.float32), device)
    optim.clip_grad_value_(one, 1)
    np.testing.assert_array_equal(one.grad.to_host(), [np.nan, -1])


@everywhere
def test_mixed_dtypes_share_one_norm(device: Device) -> None:
    values = [np.array([3.0], np.float16), np.array([4.0], np.float32)]
    ours = parameters(device, values=values)
    assert optim.clip_grad_norm_(ours, 1.0).item() == pytest.approx(5.0)
    found = [parameter.grad.item() for parameter in ours[1:]]
    assert found == pytest.approx([0.6, 0.8], rel=1e-3)


@everywhere
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("norm_type", [2.0, float("inf")])
def test_a_norm_that_is_not_finite(bad: float, norm_type: float, device: Device) -> None:
    values = [np.array([1, bad], np.float32), np.array([5], np.float32)]
    ours, theirs = parameters(device, values=values), reference("float32", values)
    with pytest.raises(GradientError, match="a total norm of"):
        optim.clip_grad_norm_(ours, 1.0, norm_type, error_if_nonfinite=True)
    assert ours[2].grad.item() == 5
    norm = optim.clip_grad_norm_(ours, 1.0, norm_type)
    torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm_type)
    assert not np.isfinite(norm.item())
    compare(ours, theirs, 0)


@pytest.mark.parametrize("device", OPENCL, ids=str)
@pytest.mark.parametrize(("count", "expected"), [(1, 1), (48, 1), (49, 2)])
def test_few_launches_and_no_wait(
    device: Device, count: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = parameters(device, values=[np.ones(3, np.float32)] * count)
    optim.clip_grad_norm_(ours, 1.0)
    with recorded(device) as stream, monkeypatch.context() as patch:
        patch.setattr(nc.Tensor, "to_host", None)
        optim.clip_grad_norm_(ours, 0.5)
        optim.clip_grad_value_(ours, 0.5)
    assert stream.launched == [
        *["gradient_powers"] * expected,
        "gradient_norm",
        *["gradient_scale"] * expected,
        *["gradient_clamp"] * expected,
    ]


@everywhere
def test_a_clipped_step(device: Device) -> None:
    parameter = nn.Parameter(nc.tensor(np.zeros(2, np.float32), device))
    parameter.grad = nc.tensor(np.array([30, 40], np.float32), device)
    optimizer = optim.SGD([parameter], lr=1.0)
    optim.clip_grad_norm_(parameter, 5.0)
    optimizer.step()
    np.testing.assert_allclose(parameter.to_host(), [-3, -4], rtol=1e-6)


def test_mistakes_are_named() -> None:
    ours = parameters(nc.devices()[-1])
    empty = parameters(nc.devices()[-1], values=[np.zeros((0, 2), np.float32)])
    assert optim.clip_grad_norm_(empty, 1.0).item() == 0
    optim.clip_grad_value_([], 1.0)
    with pytest.raises(AttributeValueError, match="max_norm=-1"):
        optim.clip_grad_norm_(ours, -1)
    with pytest.raises(AttributeValueError, match="norm_type=0"):
        optim.clip_grad_norm_(ours, 1, 0)
    with pytest.raises(AttributeValueError, match="clip_value='x'"):
        optim.clip_grad_value_(ours, "x")
    if OPENCL:
        with pytest.raises(DeviceError, match="device by device"):
            optim.clip_grad_norm_([*ours, *parameters(OPENCL[0])], 1.0)
