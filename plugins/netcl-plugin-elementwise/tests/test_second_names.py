"""PyTorch's second names: the same ops, with its further arguments, errors and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_elementwise import ALIASES

import netcl_core as nc
from netcl_core.errors import AttributeValueError, DtypeError

pytest.importorskip("netcl_plugin_nn")
torch = pytest.importorskip("torch")
F = nc.nn.functional
VALUES = np.array([-7.5, -2.0, -0.5, -0.0, 0.0, 0.25, 3.0, 1e30])
DEVICES = list(dict.fromkeys([nc.devices()[0], nc.get_device("numpy")]))


@pytest.mark.parametrize("name", ALIASES)
def test_pytorch_has_the_name(name: str) -> None:
    assert hasattr(torch, name) or hasattr(torch.nn.functional, name)


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "use",
    [
        lambda t, x: t.subtract(x, 2, alpha=3),
        lambda t, x: x.subtract(x, alpha=0.5),
        lambda t, x: t.divide(x, 3, rounding_mode="floor"),
        lambda t, x: x.divide(3, rounding_mode="trunc"),
        lambda t, x: t.multiply(input=x, other=2),
        lambda t, x: x.negative().absolute(),
        lambda t, x: x.greater(0),
        lambda t, x: t.clip(x, max=t.zeros_like(x)),
        lambda t, x: t.nn.functional.threshold(x, 0.1, 20),
        lambda t, x: t.nn.functional.hardshrink(x, lambd=0.25),
        lambda t, x: t.celu(x, alpha=-2.0),
        lambda t, x: t.nan_to_num(x / 0 * 1e20),
        lambda t, x: t.nan_to_num(x / 0, 1, posinf=2, neginf=-3),
        lambda t, x: t.clone(x).multiply_(2).subtract_(1).fix_(),
    ],
)
def test_values(device: nc.Device, dtype: str, use: Callable[[Any, Any], Any]) -> None:
    theirs = use(torch, torch.tensor(VALUES, dtype=getattr(torch, dtype))).numpy()
    with nc.use_device(device):
        ours = use(nc, nc.tensor(VALUES, dtype=dtype)).numpy()
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_infinity_becomes_the_largest_number(dtype: str) -> None:
    x = nc.tensor([np.inf, -np.inf, np.nan, 1.0]).astype(dtype)
    most = torch.finfo(getattr(torch, dtype)).max
    assert nc.nan_to_num(x).astype("float64").tolist() == [most, -most, 0, 1]


def test_far_from_and_near_to_one() -> None:
    """Where squares overflow, and where differences cancel."""
    for op, values in {
        "asinh": [1e-6, -1e-6, 1e25, -1e25],
        "acosh": [1.0000001, 1.001, 1e25],
        "atanh": [1e-6, -1e-6, 0.999999],
    }.items():
        x = np.array(values, np.float32)
        exact = getattr(np, f"arc{op[1:]}")(x.astype(np.float64))
        np.testing.assert_allclose(getattr(nc, op)(nc.tensor(x)), exact, rtol=1e-5)
    far = nc.tensor([3e30, 3e-30])
    np.testing.assert_allclose(nc.hypot(far, far * 4 / 3), [5e30, 5e-30], rtol=1e-6)


def test_errors() -> None:
    x = nc.ones(2)
    with pytest.raises(AttributeValueError, match=r"celu: alpha=0; expected any number but 0"):
        F.celu(x, 0)
    with pytest.raises(AttributeValueError, match="softshrink: lambd=-1"):
        F.softshrink(x, -1)
    with pytest.raises(AttributeValueError, match="threshold: the attribute 'value' is missing"):
        F.threshold(x, 1)
    with pytest.raises(AttributeValueError, match="fmod: integers by 0"):
        nc.fmod(nc.tensor([1, 2]), 0)
    with pytest.raises(AttributeValueError, match="rounding_mode='up'"):
        nc.divide(x, 2, rounding_mode="up")
    with pytest.raises(DtypeError, match="positive: a bool tensor; expected numbers"):
        nc.positive(x > 0)
