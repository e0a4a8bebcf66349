"""Dtypes: exact integers, bools that stay bools, and promotion as PyTorch's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.dtypes import DTYPES

#: Without PoCL, which builds slowly and meets int64 below.
FAST = pytest.mark.parametrize("device", ["numpy", "opencl"], indirect=True)
INTEGERS = ("uint8", "int32", "int64")
SIZE = 37


@FAST
def test_integers_are_exact(device: Any) -> None:
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = np.resize(np.array([0, 1, 2, 7, info.max, info.min, info.max - 1], dtype), SIZE)
        y = np.resize(np.array([3, info.max, 5, 1, 2], dtype), SIZE)
        a, b = nc.tensor(x), nc.tensor(y)
        with np.errstate(all="ignore"):
            cases = {
                "add": x + y,
                "sub": x - y,
                "mul": x * y,
                "maximum": np.maximum(x, y),
                "lt": x < y,
                "eq": x == y,
            }
        for op, wanted in cases.items():
            given = getattr(ag, op)(a, b)
            assert given.dtype == wanted.dtype.name
            np.testing.assert_array_equal(given.to_host(), wanted, err_msg=f"{op} {dtype}")
        for op in ("relu", "abs", "round"):
            assert getattr(ag, op)(a).dtype == dtype
        assert ag.exp(a).dtype == ag.div(a, b).dtype == "float32"


@FAST
def test_integer_powers_are_exact(device: Any) -> None:
    for dtype in ("int32", "int64"):
        base = np.array([3, 7, -3, 2, -2, 10, 1, -1, 0, 0, 5, -1, 1], dtype)
        exponent = np.array([13, 9, 3, 30, 31, 9, 1000, -3, 0, 5, -1, 40, -7], dtype)
        wanted = np.array([3**13, 7**9, -27, 2**30, -(2**31), 10**9, 1, -1, 1, 0, 0, 1, 1], dtype)
        np.testing.assert_array_equal((nc.tensor(base) ** nc.tensor(exponent)).to_host(), wanted)
    deep = nc.tensor(np.int64([3, 7])) ** nc.tensor(np.int64([39, 22]))
    assert deep.to_host().tolist() == [3**39, 7**22]


def test_int64_beyond_double(device: Any) -> None:
    """Values that a detour through double or int would change."""
    x = nc.tensor(np.resize(np.int64([2**53 + 1, -(2**62) - 1, 5]), SIZE))
    assert ag.add(x, 1).to_host()[:3].tolist() == [2**53 + 2, -(2**62), 6]
    assert ag.maximum(x, 2**53).to_host()[:3].tolist() == [2**53 + 1, 2**53, 2**53]
    kept = ag.where(ag.gt(x, 2**53), x, 0)
    assert kept.dtype == "int64"
    assert kept.to_host()[:3].tolist() == [2**53 + 1, 0, 0]


@FAST
def test_bools_stay_zero_or_one(device: Any) -> None:
    x = nc.tensor(np.resize([True, True, False], SIZE))
    for out in (ag.add(x, x), ag.mul(x, x), ag.maximum(x, x), ag.logical_not(x), ag.eq(x, True)):
        assert out.dtype == "bool"
        assert set(out.to_host().view(np.uint8).tolist()) <= {0, 1}
    assert ag.where(x, x, x).dtype == "bool"


def test_a_scalar_that_does_not_fit_is_refused() -> None:
    x = nc.tensor(np.int32([1]))
    with pytest.raises(nc.errors.DtypeError, match="add: the scalar 4294967296 as int"):
        ag.add(x, 2**32)
    with pytest.raises(nc.errors.DtypeError, match="complex"):
        ag.add(x, 1j)


def test_float64_stays_float64(device: Any) -> None:
    if not device.supports_fp64:
        pytest.skip(f"{device!r} has no float64")
    x = ag.tensor(nc.tensor(np.linspace(0.1, 1, SIZE)), requires_grad=True)
    out = ag.exp(ag.mul(x, 1 / 3))
    assert out.dtype == "float64"
    np.testing.assert_allclose(out.to_host(), np.exp(np.linspace(0.1, 1, SIZE) * (1 / 3)), 1e-14)
    out.backward(np.ones(SIZE))
    assert x.grad.dtype == "float64"


@FAST
def test_mixed_float_gradients_have_their_inputs_dtypes(device: Any) -> None:
    for first, second in itertools.permutations(("float16", "float32"), 2):
        x = ag.tensor(nc.tensor(np.ones(SIZE, first)), requires_grad=True)
        y = ag.tensor(nc.tensor(np.full((2, SIZE), 3, second)), requires_grad=True)
        out = ag.mul(x, y)
        assert out.dtype == "float32"
        out.backward(np.ones((2, SIZE), np.float32))
        assert (x.grad.dtype, y.grad.dtype) == (first, second)
        np.testing.assert_array_equal(x.grad.to_host(), np.full(SIZE, 6))


def test_integer_operands_beside_a_float_leaf(device: Any) -> None:
    x = ag.tensor(nc.tensor(np.full(SIZE, 2, np.float32)), requires_grad=True)
    out = ag.mul(x, nc.tensor(np.arange(SIZE, dtype=np.int64)))
    assert out.dtype == "float32"
    out.backward(np.ones(SIZE, np.float32))
    np.testing.assert_array_equal(x.grad.to_host(), np.arange(SIZE))


def _operands() -> list[Any]:
    arrays = [np.ones(2, name) for name in DTYPES] + [np.ones((), name) for name in DTYPES]
    return [*arrays, True, 2, 2.5]


def test_promotion_is_pytorchs() -> None:
    """Every pair of dtypes, as tensors with dimensions, as 0-d tensors and as Python scalars."""
    torch = pytest.importorskip("torch")

    def theirs(operand: Any) -> Any:
        if not isinstance(operand, np.ndarray):
            return operand
        dtype = getattr(torch, operand.dtype.name)
        return torch.tensor(nc.widened(operand)).to(dtype)

    with nc.use_device("numpy"):
        for a, b in itertools.product(_operands(), repeat=2):
            if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
                continue
            wanted = str(torch.result_type(theirs(a), theirs(b))).removeprefix("torch.")
            given = ag.mul(*(nc.tensor(x) if isinstance(x, np.ndarray) else x for x in (a, b)))
            assert given.dtype == wanted, (a, b)
