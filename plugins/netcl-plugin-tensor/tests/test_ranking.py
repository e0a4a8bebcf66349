"""max, min, amax, amin and topk against PyTorch: values, places, gradients, and what is refused."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from netcl_plugin_tensor import topk_gpu

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, NetclError, ShapeError

torch = pytest.importorskip("torch")
DEVICES = [device for device in nc.devices() if not device.simulator]
RNG = np.random.default_rng(11)
SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 3, 4)]
DTYPES = ["float16", "float32", "float64", "int32", "int64", "uint8"]


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


def dtypes_of(device: nc.Device) -> list[str]:
    return [dtype for dtype in DTYPES if dtype != "float64" or device.supports_fp64]


def tied(shape: tuple[int, ...], dtype: str) -> Any:
    """Small whole numbers, so that many are equal."""
    return RNG.integers(0 if dtype == "uint8" else -2, 4, shape).astype(dtype)


def distinct(shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers in any order, none twice."""
    size = int(np.prod(shape, dtype=int))
    return RNG.permutation(size).reshape(shape).astype(dtype)


def with_nans(shape: tuple[int, ...], dtype: str) -> Any:
    values = distinct(shape, dtype)
    values[RNG.random(shape) < 0.3] = np.nan
    values[RNG.random(shape) < 0.1] = np.inf
    values[RNG.random(shape) < 0.1] = -np.inf
    return values


def dims_of(shape: tuple[int, ...]) -> range:
    rank = max(1, len(shape))
    return range(-rank, rank)


def same(found: Any, wanted: Any, what: Any) -> None:
    assert (found.shape, found.dtype) == (tuple(wanted.shape), str(wanted.dtype)[6:]), what
    np.testing.assert_array_equal(found.to_host(), wanted.detach().numpy(), str(what))


# -- max and min along an axis ---------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_with_places(device: nc.Device, name: str) -> None:
    """Of equal elements the first, as PyTorch on a CPU."""
    for dtype, shape in itertools.product(dtypes_of(device), SHAPES):
        x = tied(shape, dtype)
        for dim, keepdim in itertools.product(dims_of(shape), (False, True)):
            found = getattr(ag, name)(nc.tensor(x), dim, keepdim)
            wanted = getattr(torch, name)(torch.tensor(x), dim, keepdim)
            assert found._fields == ("values", "indices")
            for mine, their in zip(found, wanted, strict=True):
                same(mine, their, (dtype, shape, dim, keepdim))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_nans(device: nc.Device, name: str) -> None:
    """NaN wins, the first of several."""
    for dtype in ("float16", "float32", *(["float64"] if device.supports_fp64 else [])):
        for _ in range(5):
            x = with_nans((6, 9), dtype)
            for dim in (0, 1):
                found = getattr(ag, name)(nc.tensor(x), dim)
                wanted = getattr(torch, name)(torch.tensor(x), dim)
                for mine, their in zip(found, wanted, strict=True):
                    same(mine, their, (dtype, dim))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_the_gradient_of_an_extreme_goes_to_one_element(
    device: nc.Device, name: str, compiled: bool
) -> None:
    for dtype, shape in itertools.product(("float32", "float64"), SHAPES):
        if dtype == "float64" and not device.supports_fp64:
            continue
        x = tied(shape, dtype)
        for dim in dims_of(shape):

            def values(t: Any, dim: int = dim) -> Any:
                return getattr(ag, name)(t, dim).values

            ours, theirs = nc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            found = (ag.jit_compile(values) if compiled else values)(ours)
            wanted = getattr(torch, name)(theirs, dim).values
            seed = RNG.standard_normal(wanted.shape).astype(dtype)
            found.backward(nc.tensor(seed))
            wanted.backward(torch.tensor(seed))
            np.testing.assert_array_equal(ours.grad.to_host(), theirs.grad.numpy(), str(shape))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_without_elements(device: nc.Device, name: str) -> None:
    function, theirs = getattr(ag, name), getattr(torch, name)
    for shape, dim in (((0, 3), 1), ((2, 0, 3), 2), ((2, 0, 3), 0)):
        x = nc.Tensor.zeros(shape).requires_grad_()
        found = function(x, dim)
        for mine, their in zip(found, theirs(torch.zeros(shape), dim), strict=True):
            same(mine, their, shape)
        x.grad = None
        ag.sum(found.values).backward()
        assert x.grad.shape == shape
    with pytest.raises(ShapeError, match=rf"{name}.*at least one"):
        function(nc.Tensor.zeros((2, 0)), 1)
    for dim in (2, -3):
        with pytest.raises(NetclError, match=name):
            function(nc.Tensor.zeros((2, 3)), dim)
    with pytest.raises(NetclError, match=name):
        function(nc.Tensor.zeros(()), 1)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_all_and_of_two(device: nc.Device, name: str) -> None:
    x, y = tied((3, 4), "float32"), tied((3, 4), "float32")
    function, theirs = getattr(ag, name), getattr(torch, name)
    same(function(nc.tensor(x)), theirs(torch.tensor(x)), "all")
    two = theirs(torch.tensor(x), torch.tensor(y))
    same(function(nc.tensor(x), nc.tensor(y)), two, "two")
    ours, reference = nc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    function(ours).backward()
    theirs(reference).backward()
    np.testing.assert_array_equal(ours.grad.to_host(), reference.grad.numpy())


# -- amax and amin ---------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_amax_shares_the_gradient_among_ties(device: nc.Device, name: str) -> None:
    for dtype, shape in itertools.product(("float32", "float64"), SHAPES):
        if dtype == "float64" and not device.supports_fp64:
            continue
        x = tied(shape, dtype)
        for dim, keepdim in itertools.product([*dims_of(shape), tuple(range(len(shape)))],
                                              (False, True)):  # fmt: skip
            ours, theirs = nc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            found = getattr(ag, name)(ours, dim, keepdim)
            wanted = getattr(torch, name)(theirs, dim, keepdim)
            same(found, wanted, (dtype, shape, dim, keepdim))
            seed = RNG.standard_normal(wanted.shape).astype(dtype)
            found.backward(nc.tensor(seed))
            wanted.backward(torch.tensor(seed))
            tolerance = 1e-6 if dtype == "float32" else 1e-14
            np.testing.assert_allclose(
                ours.grad.to_host(), theirs.grad.numpy(), tolerance, tolerance, err_msg=str(shape)
            )


@pytest.mark.parametrize("name", ["amax", "amin"])
def test_amax_of_whole_numbers_and_of_nans(device: nc.Device, name: str) -> None:
    for dtype in ("int32", "int64", "uint8"):
        x = tied((4, 5), dtype)
        same(getattr(ag, name)(nc.tensor(x), 1), getattr(torch, name)(torch.tensor(x), 1), dtype)
    x = with_nans((6, 9), "float32")
    same(getattr(ag, name)(nc.tensor(x), 1), getattr(torch, name)(torch.tensor(x), 1), "NaN")


# -- topk ------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [True, False])
def test_topk(device: nc.Device, largest: bool) -> None:
    for dtype, shape in itertools.product(dtypes_of(device), SHAPES):
        x = distinct(shape, dtype)
        for dim in dims_of(shape):
            size = x.shape[dim] if shape else 1
            for k in {0, 1, size // 2, size}:  # of no axes PyTorch gives the element for k=0, too
                found = ag.topk(nc.tensor(x), k, dim, largest)
                wanted = torch.topk(torch.tensor(x), k, dim, largest)
                for mine, their in zip(found, wanted, strict=True):
                    same(mine, their, (dtype, shape, dim, k))


def starts_the_sorted_rows(x: Any, ks: Sequence[int], largest: bool) -> None:
    """topk is what a stable sort begins with, values and places."""
    order = torch.sort(torch.tensor(x), dim=1, descending=largest, stable=True)
    for k in ks:
        found = ag.topk(nc.tensor(x), k, 1, largest)
        same(found.values, order.values[:, :k], x.dtype)
        same(found.indices, order.indices[:, :k], x.dtype)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_equal_elements_takes_the_first(device: nc.Device, largest: bool) -> None:
    """PyTorch says nothing of their order; a stable sort does."""
    for dtype in dtypes_of(device):
        starts_the_sorted_rows(tied((5, 12), dtype), (1, 5, 12), largest)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_nans(device: nc.Device, largest: bool) -> None:
    """NaN counts as the largest."""
    for dtype in ("float16", "float32", *(["float64"] if device.supports_fp64 else [])):
        for _ in range(5):
            starts_the_sorted_rows(with_nans((6, 9), dtype), (1, 4, 9), largest)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_the_gradient_of_topk(device: nc.Device, compiled: bool) -> None:
    for shape in ((7,), (3, 5), (2, 3, 4)):
        x = distinct(shape, "float32")
        for dim, k in itertools.product(dims_of(shape), (0, 1, 2)):

            def values(t: Any, k: int = k, dim: int = dim) -> Any:
                return ag.mul(ag.topk(t, k, dim).values, 2.0)

            ours, theirs = nc.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            found = (ag.jit_compile(values) if compiled else values)(ours)
            wanted = torch.topk(theirs, min(k, x.shape[dim]), dim).values * 2
            seed = RNG.standard_normal(wanted.shape).astype("float32")
            found.backward(nc.tensor(seed))
            wanted.backward(torch.tensor(seed))
            np.testing.assert_array_equal(ours.grad.to_host(), theirs.grad.numpy(), str((shape, k)))


def test_what_topk_refuses(device: nc.Device) -> None:
    x = nc.Tensor.zeros((3, 5))
    for k in (6, -1):
        with pytest.raises(AttributeValueError, match=f"topk: k={k} along an axis of 5"):
            ag.topk(x, k)
    with pytest.raises(NetclError, match="topk"):
        ag.topk(x, 1, 2)
    with pytest.raises(NetclError, match="topk"):
        ag.topk(x, 1.5)
    with pytest.raises(AttributeValueError, match="topk: k=1 along an axis of 0"):
        ag.topk(nc.Tensor.zeros((2, 0)), 1)


def test_topk_without_elements(device: nc.Device) -> None:
    for shape, k in (((0, 3), 2), ((2, 0), 0)):
        x = nc.Tensor.zeros(shape).requires_grad_()
        found = ag.topk(x, k)
        for mine, their in zip(found, torch.topk(torch.zeros(shape), k), strict=True):
            same(mine, their, shape)
        ag.sum(found.values).backward()
        assert x.grad.shape == shape


# -- gradients -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max", "min", "sort", "topk"])
def test_gradients_do_not_ask_the_device_for_places(
    device: nc.Device, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The op itself found them, so that none is out of range."""

    def read(self: nc.Tensor) -> Any:
        raise AssertionError("the host waits for the device")

    x = nc.tensor(distinct((4, 6), "float32"), requires_grad=True)
    values, _ = ag.topk(x, 2) if name == "topk" else getattr(ag, name)(x, 1)
    with monkeypatch.context() as patch:
        patch.setattr(nc.Tensor, "int_range", read)
        ag.sum(values).backward()
    assert x.grad.to_host().sum() == values.size


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("shape", [(5000,), (33, 500), (2, 4097, 3)])
def test_extremes_by_many_items(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on the NumPy path: of equal ones the first, NaN, slices of lines, an inner axis."""
    device = nc.default_device()
    if device.backend == "numpy":
        pytest.skip("there is no OpenCL device")
    monkeypatch.setattr(device, "kind", "gpu")
    x = np.random.default_rng(1).integers(-5, 6, shape).astype(dtype)
    if dtype == "float32":
        x.reshape(-1)[[999, 4777]] = np.nan
    ours, theirs = nc.tensor(x), nc.tensor(x, "numpy")
    for op in (ag.argmax, ag.argmin):
        for dim in (None, *range(x.ndim)):
            np.testing.assert_array_equal(op(ours, dim), op(theirs, dim))
    monkeypatch.setattr(topk_gpu, "_LONG", 256)
    best, worst = (functools.partial(ag.topk, k=31, largest=largest) for largest in (True, False))
    for dim in range(x.ndim):
        for op in (ag.max, ag.min, *((best, worst) if x.shape[dim] >= 256 else ())):
            for found, wanted in zip(op(ours, dim=dim), op(theirs, dim=dim), strict=True):
                np.testing.assert_array_equal(found, wanted)
