"""Tensors out of nothing: PyTorch's names, arguments, dtypes and values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError

torch = pytest.importorskip("torch")
FILLED = ("zeros", "ones", "empty")
LIKE = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")


@pytest.fixture(params=["opencl", "numpy"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    found = next((d for d in nc.devices() if d.backend == "opencl" and not d.simulator), None)
    if request.param == "opencl" and found is None:
        pytest.skip("there is no OpenCL device here")
    with nc.use_device(found if request.param == "opencl" else "numpy") as used:  # type: ignore[arg-type]
        yield used


@pytest.mark.parametrize("name", [*FILLED, "rand", "randn"])
def test_sizes_as_one_tuple_or_as_several(name: str, device: nc.Device) -> None:
    make = getattr(nc, name)
    assert make is getattr(ag, name)
    shapes = [make(2, 3).shape, make((2, 3)).shape, make([2, 3]).shape]
    assert shapes == [(2, 3)] * 3
    assert (make(4).shape, make(()).shape, make(0, 5).shape) == ((4,), (), (0, 5))
    made = make(2, dtype="float16", device=device, requires_grad=True)
    assert (made.dtype, made.device, made.requires_grad) == ("float16", device, True)


def test_a_dtype_and_a_device_by_position_after_a_tuple() -> None:
    made = nc.zeros((2,), "int32", "numpy")
    assert (made.dtype, str(made.device)) == ("int32", "numpy")
    assert nc.zeros(2, "int32").dtype == "int32"
    with pytest.raises(ArgumentError, match="'dtype' given twice"):
        nc.zeros((2,), "int32", dtype="int64")
    with pytest.raises(ArgumentError, match="sizes, then dtype, device, requires_grad"):
        nc.zeros((2,), "int32", "numpy", False, 1)


@pytest.mark.parametrize("wrong", [(-1,), (2, -3), ((2.5,),)])
def test_sizes_that_are_none(wrong: Any) -> None:
    for make in (nc.zeros, nc.ones, nc.empty, nc.rand):
        with pytest.raises((ShapeError, DtypeError)):
            make(*wrong)


@pytest.mark.parametrize("sizes", [(1 << 40, 1 << 40), (1 << 31, 1 << 31)])
def test_sizes_that_nothing_holds(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="at most 576460752303423488 elements"):
        nc.zeros(sizes)


def test_values() -> None:
    assert nc.zeros(2, 2).numpy().tolist() == [[0, 0], [0, 0]]
    assert nc.ones(2, dtype="bool").numpy().tolist() == [True, True]
    assert nc.full((2,), 7.5).numpy().tolist() == [7.5, 7.5]
    assert nc.full((2,), True).dtype == "bool"


@pytest.mark.parametrize("name", LIKE)
def test_like_another(name: str, device: nc.Device) -> None:
    x = nc.ones((2, 3), dtype="float16")
    made = getattr(nc, name)(x)
    assert (made.shape, made.dtype, made.device) == (x.shape, x.dtype, device)
    other = getattr(nc, name)(x, dtype="float32", device="numpy", requires_grad=True)
    assert (other.dtype, str(other.device), other.requires_grad) == ("float32", "numpy", True)


def test_full_like() -> None:
    made = nc.full_like(ag.tensor([1, 2]), 3)
    assert (made.numpy().tolist(), made.dtype) == ([3, 3], "int64")


@pytest.mark.parametrize(
    "args",
    [(5,), (0,), (2, 8), (2, 8, 3), (8, 2, -2), (1.5,), (0, 1, 0.1), (1, 0, -0.3), (3, 3), (-5, 5)],
)
def test_arange(args: tuple[float, ...]) -> None:
    wanted = torch.arange(*args)
    made = nc.arange(*args)
    assert made.dtype == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(made.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-7)


@given(st.integers(-99, 99), st.integers(-99, 99), st.integers(-9, 9).filter(bool))
def test_arange_of_any_ints(start: int, end: int, step: int) -> None:
    if (end - start) * step < 0:
        with pytest.raises(AttributeValueError, match="a step towards end"):
            nc.arange(start, end, step)
    else:
        assert nc.arange(start, end, step).numpy().tolist() == list(range(start, end, step))


@pytest.mark.parametrize("wrong", [(1, 2, 0), (float("nan"),), (0, float("inf")), (0, 1, -1)])
def test_an_arange_that_ends_nowhere(wrong: Any) -> None:
    with pytest.raises(AttributeValueError, match="arange"):
        nc.arange(*wrong)


@pytest.mark.parametrize("args", [(0, 1, 5), (3, -3, 7), (2, 9, 1), (0, 1, 0), (1e6, 1e6 + 1, 9)])
def test_linspace(args: Any) -> None:
    np.testing.assert_allclose(nc.linspace(*args).numpy(), torch.linspace(*args).numpy(), rtol=1e-6)


@pytest.mark.parametrize("args", [(3,), (2, 4), (4, 2), (0,), (1, 0)])
def test_eye(args: Any) -> None:
    assert nc.eye(*args, dtype="int32").numpy().tolist() == torch.eye(*args).int().tolist()


@pytest.mark.parametrize("wrong", [lambda: nc.eye(-1), lambda: nc.linspace(0, 1, 2.5)])
def test_counts_that_are_none(wrong: Callable[[], Any]) -> None:
    with pytest.raises(AttributeValueError, match="an int, 0 or more"):
        wrong()


def test_as_tensor_and_from_numpy() -> None:
    array = np.ones(3)
    made = nc.from_numpy(array)
    array[0] = 5
    assert (made.dtype, made.numpy().tolist()) == ("float64", [1, 1, 1])
    assert nc.as_tensor(made) is made
    assert nc.as_tensor(made, dtype="float32").dtype == "float32"
    assert nc.as_tensor([1, 2], "float16").dtype == "float16"
    with pytest.raises(ArgumentError, match="from_numpy"):
        nc.from_numpy([1.0])


# -- random numbers ---------------------------------------------------------------------------

FLOATS = ("bfloat16", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["rand", "randn"])
def test_every_device_draws_the_same(name: str, dtype: str) -> None:
    found = []
    for each in nc.devices():
        if not each.simulator:
            nc.manual_seed(3)
            found.append(getattr(nc, name)(3, 1037, dtype=dtype, device=each).numpy())
    for other in found[1:]:
        near = {"rand": 0, "randn": 1e-2 if dtype.endswith("16") else 1e-6}[name]
        wide = other.astype("float64")
        np.testing.assert_allclose(found[0].astype("float64"), wide, atol=near, rtol=near)


def test_whole_numbers_are_the_same_on_every_device() -> None:
    for args in ((10, (1001,)), (-5, 7, (33,)), (-(2**63), 2**63 - 1, (999,)), (0, 2**40, (5, 5))):
        found = []
        for each in nc.devices():
            if not each.simulator:
                nc.manual_seed(3)
                found.append(nc.randint(*args, device=each).numpy().tolist())
        assert all(each == found[0] for each in found)


def test_a_seed_repeats_and_calls_differ() -> None:
    nc.manual_seed(5)
    first, second = nc.randn(100).numpy(), nc.randn(100).numpy()
    nc.manual_seed(5)
    assert (nc.randn(100).numpy() == first).all()
    assert not (first == second).any()


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_numbers_are_spread_evenly(dtype: str) -> None:
    nc.manual_seed(1)
    found = nc.rand(200_000, dtype=dtype).numpy().astype("float64")
    assert found.min() >= 0 and found.max() < 1
    counts, _ = np.histogram(found, 64, (0, 1))
    expected = len(found) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * (2 * 63) ** 0.5  # chi squared


@pytest.mark.parametrize("dtype", FLOATS)
def test_normal_numbers_have_the_moments_of_normal_ones(dtype: str) -> None:
    nc.manual_seed(2)
    found = nc.randn(200_001, dtype=dtype).numpy().astype("float64")
    moments = [found.mean(), found.var(), (found**3).mean(), (found**4).mean()]
    np.testing.assert_allclose(moments, [0, 1, 0, 3], atol=0.06)
    pairs = np.corrcoef(found[:-1:2], found[1::2])[0, 1]
    assert abs(pairs) < 0.02


def test_whole_numbers_are_spread_evenly() -> None:
    nc.manual_seed(4)
    found = nc.randint(-3, 7, (200_000,)).numpy()
    counts = np.bincount(found + 3, minlength=10)
    assert len(counts) == 10 and ((counts - 20_000) ** 2 / 20_000).sum() < 9 + 5 * 18**0.5


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [("uint8", 0, 256), ("int32", -(2**31), 2**31), ("float32", 0, 3)]
)
def test_whole_numbers_of_a_dtype(dtype: str, low: int, high: int) -> None:
    found = nc.randint(low, high, (1000,), dtype=dtype)
    assert found.dtype == dtype and len(set(found.numpy().tolist())) > 2


@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((5, 5, (2,)), None),
        ((0, 257, (2,)), "uint8"),
        ((0.5, (2,)), None),
        ((0, 2**64, (1,)), None),
    ],
)
def test_bounds_that_are_none(args: Any, dtype: Any) -> None:
    with pytest.raises((AttributeValueError, DtypeError), match="randint"):
        nc.randint(*args, dtype=dtype)


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_a_permutation_has_every_number_once(n: int) -> None:
    found = nc.randperm(n)
    assert found.dtype == "int64" and sorted(found.numpy().tolist()) == list(range(n))


def test_permutations_are_all_equally_likely() -> None:
    nc.manual_seed(6)
    seen = [tuple(nc.randperm(3).numpy().tolist()) for _ in range(1200)]
    counts = np.array([seen.count(each) for each in set(seen)])
    assert len(counts) == 6 and ((counts - 200) ** 2 / 200).sum() < 5 + 5 * 10**0.5


def test_a_compiled_function_draws_anew_at_each_call() -> None:
    noisy = ag.jit_compile(lambda x: x + nc.rand(3))
    first, second = (noisy(nc.zeros(3)).numpy() for _ in range(2))
    assert (first != second).all()


def test_a_replay_draws_anew(device: nc.Device) -> None:
    if device.backend != "opencl":
        pytest.skip("captures are OpenCL's")
    x = nc.zeros(4)
    graph = ag.capture(lambda x: x + nc.randn(4), x)
    first, second = (graph.replay([x]).numpy() for _ in range(2))
    assert (first != second).all()


def test_a_random_leaf_gets_its_gradient() -> None:
    w = nc.randn(2, 3, requires_grad=True)
    ag.sum(w * w).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.numpy())
    with pytest.raises(DtypeError):
        nc.rand(2, dtype="int32")


ENDS = st.one_of(
    st.integers(-20, 20), st.floats(-20, 20, width=32), st.sampled_from([-8.000001, 0.1, 1e-3])
)


@settings(max_examples=examples(400), deadline=None)
@given(ENDS, ENDS, ENDS, st.sampled_from(["int64", "int32", "uint8", "float32", "float64", None]))
def test_arange_has_pytorchs_elements(start: Any, end: Any, step: Any, dtype: Any) -> None:
    if step and abs((end - start) / step) > 1000:
        return
    try:
        theirs = torch.arange(start, end, step, dtype=dtype and getattr(torch, dtype))
    except (RuntimeError, ValueError):
        return
    ours = nc.arange(start, end, step, dtype=dtype, device="numpy")
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


def test_an_end_of_int64_loses_its_fraction() -> None:
    assert nc.arange(0, -8.000001, -4, dtype="int64").tolist() == [0, -4]
