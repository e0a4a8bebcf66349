"""pow of integers: it wraps around as PyTorch's and NumPy's; negative powers are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_powers_wrap_around(device: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    ends = [0, 1, 2, 3, 255, info.max, info.min, info.max - 1, info.min + 1]
    base = RANDOM.integers(info.min, info.max, 1031, dtype).astype(dtype)
    base[: len(ends)] = np.array(ends).astype(dtype)
    power = RANDOM.integers(0, min(info.max, 200), 1031).astype(dtype)
    power[:40] = np.arange(40)
    power[40:44] = [info.max, info.max - 1, 127, 64]
    for x, y in ((base, power), (base[:, None], power[:49]), (base[:9, None], power)):
        with np.errstate(all="ignore"):
            right = x**y
        found = ag.pow(nc.tensor(x), nc.tensor(y))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.to_host(), right)
    for y in (0, 1, 2, 7, 20, 33, 100):
        np.testing.assert_array_equal((nc.tensor(base) ** y).to_host(), base ** np.array(y, dtype))
    fused = ag.jit_compile(lambda x, y: ag.add(ag.pow(x, y), 1))
    with np.errstate(all="ignore"):
        right = base**power + np.array(1, dtype)
    np.testing.assert_array_equal(fused(nc.tensor(base), nc.tensor(power)).to_host(), right)


def test_powers_of_a_tensor_that_are_negative(device: Any) -> None:
    """They are on the device, where nobody looks: the quotient of integers, as in PyTorch."""
    torch = pytest.importorskip("torch")
    for dtype in ("int32", "int64"):
        x = np.array([2, -1, -1, 1, 0, 3, -2, np.iinfo(dtype).min, 5] * 3, dtype)
        y = np.array([-1, -2, -3, -5, -1, np.iinfo(dtype).min, -31, -1, 3] * 3, dtype)
        right = torch.pow(torch.tensor(x), torch.tensor(y))
        np.testing.assert_array_equal(ag.pow(nc.tensor(x), nc.tensor(y)).to_host(), right)
        np.testing.assert_array_equal(
            ag.pow(2, nc.tensor(y)).to_host(), torch.pow(2, torch.tensor(y))
        )


@pytest.mark.parametrize("y", [-1, np.int64(-2), np.array(-1)], ids=str)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_a_negative_power_of_integers_is_refused(dtype: str, y: Any) -> None:
    x = nc.tensor(np.ones(3, dtype))
    text = r"pow: Integers to negative integer powers are not allowed: the power -\d; expected 0"
    for call in (lambda: x**y, lambda: ag.pow(x, y), lambda: ag.pow(np.ones(3, dtype), y),
                 lambda: ag.jit_compile(lambda x: x**y)(x),
                 lambda: ag.jit_compile(lambda x, y: x**y)(x, int(y))):  # fmt: skip
        with pytest.raises(nc.errors.AttributeValueError, match=text):
            call()
    for host in (3, [3, 4]):
        with pytest.raises(ValueError, match="negative integer powers"):
            ag.pow(host, y)


def test_other_powers_stay() -> None:
    ones = nc.tensor([1, 2, 4])
    np.testing.assert_array_equal((ones**-1.0).to_host(), [1, 0.5, 0.25])
    np.testing.assert_array_equal((2.0 ** nc.tensor([-1, 2])).to_host(), [0.5, 4])
    np.testing.assert_array_equal((nc.tensor([1.0, 2.0]) ** -1).to_host(), [1, 0.5])
    np.testing.assert_array_equal((nc.tensor([True, False]) ** 2).to_host(), [True, False])
    power = ag.jit_compile(lambda x, y: x**y)
    for y in (2, 3, 0):
        np.testing.assert_array_equal(power(ones, y).to_host(), np.array([1, 2, 4]) ** y)
    with pytest.raises(nc.errors.AttributeValueError, match="pow"):
        power(ones, -1)
    np.testing.assert_array_equal(power(nc.tensor([2.0]), -1).to_host(), [0.5])
