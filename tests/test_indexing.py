"""Indexing and item assignment: what NumPy picks, what it writes, and their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, GradientError, ShapeError

torch = pytest.importorskip("torch")
pytest.importorskip("netcl_plugin_tensor")


@pytest.fixture(params=["opencl", "numpy"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    found = next((d for d in nc.devices() if d.backend == "opencl" and not d.simulator), None)
    if request.param == "opencl" and found is None:
        pytest.skip("there is no OpenCL device here")
    with nc.use_device(found if request.param == "opencl" else "numpy") as used:  # type: ignore[arg-type]
        yield used


def numbers(*shape: int) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


MASK = numbers(4, 3, 5) % 3 == 0
INDICES = {
    "list": [2, 0, 2],
    "negative": [-1, 0, -4],
    "array": np.array([[0, 3], [1, 1]]),
    "uint8": np.array([0, 3, 3], np.uint8),
    "two arrays": (np.array([0, 1, 2]), [2, 1, 0]),
    "broadcast": (np.array([[0], [3]]), np.array([0, 2, 1])),
    "apart": (np.array([0, 1]), slice(None), np.array([4, 2])),
    "beside a slice": (slice(1, None), np.array([2, 0]), slice(None, None, 2)),
    "an int beside": (1, np.array([2, 0])),
    "an int apart": (1, slice(None), np.array([2, 0])),
    "new axis": (None, np.array([2, 0]), None),
    "ellipsis": (..., np.array([4, 0, 4])),
    "whole mask": MASK,
    "mask of rows": np.array([True, False, True, True]),
    "mask of two": MASK[:, :, 0],
    "mask in the middle": (slice(None), np.array([True, False, True])),
    "mask and array": (np.array([True, False, True, False]), np.array([2, 1])),
    "nothing": [],
    "no row": np.zeros(4, bool),
    "bools of a list": [True, False, False, True],
    "two bools": (True, True),
    "range": range(1, 3),
}


def on_device(index: Any) -> Any:
    """The arrays of an index as tensors."""
    if isinstance(index, tuple):
        return tuple(map(on_device, index))
    return nc.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("lies", ["host", "device"])
def test_an_index_picks_what_numpy_picks(name: str, lies: str) -> None:
    index = INDICES[name]
    array = numbers(4, 3, 5)
    x = nc.tensor(array, requires_grad=True)
    found = x[on_device(index) if lies == "device" else index]
    np.testing.assert_array_equal(found.numpy(), array[index])
    weights = np.random.default_rng(0).standard_normal(found.shape).astype("float32")
    found.backward(nc.tensor(weights))
    wanted = np.zeros_like(array)
    np.add.at(wanted, index, weights)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", INDICES)
def test_assignment_writes_what_numpy_writes(name: str) -> None:
    index = INDICES[name]
    array = numbers(4, 3, 5)
    values = -numbers(*array[index].shape)
    x, y = nc.tensor(array), nc.tensor(array)
    x[index], y[on_device(index)] = values, nc.tensor(values)
    array[index] = values
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(y.numpy(), array)


@pytest.mark.parametrize(
    "index", [0, -1, slice(1, 3), (slice(None), 1), (..., 2), (None, 2), (1, 2, 3), slice(0, 0), ()]
)
def test_assignment_by_basic_indices(index: Any) -> None:
    array = numbers(4, 3, 5)
    x = nc.tensor(array)
    x[index], array[index] = 7.5, 7.5
    np.testing.assert_array_equal(x.numpy(), array)
    x[index] += 1
    array[index] += 1
    np.testing.assert_array_equal(x.numpy(), array)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_index_of_any_shape(data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=5))
    array = numbers(*shape)
    drawn = data.draw(
        st.one_of(
            hnp.basic_indices(shape, allow_newaxis=True),
            hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(max_side=3)),
            hnp.arrays(bool, shape),
        )
    )
    np.testing.assert_array_equal(nc.tensor(array)[drawn].numpy(), array[drawn])
    x = nc.tensor(array)
    x[drawn] = -1
    array[drawn] = -1
    np.testing.assert_array_equal(x.numpy(), array)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "bfloat16", "float16", "float64"])
def test_every_dtype(dtype: str) -> None:
    array = (numbers(4, 6) % 2).astype(nc.DTYPES[dtype].numpy)
    index = np.array([3, 0, 0])
    found = nc.tensor(array)
    assert (found[index].numpy() == array[index]).all() and found[index].dtype == dtype
    found[index] = 1
    assert found.numpy()[index].astype("float32").min() == 1


@pytest.mark.parametrize(
    ("index", "error", "text"),
    [
        ([4], IndexError, "out of bounds for axis 0 with size 4"),
        (np.array([0.5]), ArgumentError, "an index of dtype float64"),
        ((["a"],), ArgumentError, "an index of dtype"),
        ((slice(None), [0], [0], [0]), IndexError, "too many indices"),
        (np.zeros((4, 2), bool), IndexError, "boolean index did not match"),
        (({},), ArgumentError, "an index of type dict"),
    ],
)
def test_no_index(index: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        nc.tensor(numbers(4, 3, 5))[index]
    with pytest.raises(error, match=text):
        nc.tensor(numbers(4, 3, 5))[index] = 0


def test_values_that_do_not_broadcast() -> None:
    x = nc.zeros(4, 3)
    with pytest.raises(ShapeError, match=r"shape \(2,\); expected \(3,\), or what broadcasts"):
        x[1] = nc.ones(2)
    assert x.numpy().sum() == 0
    x[1] = nc.ones(1, 1, 3)  # NumPy drops leading ones
    assert x.numpy().sum() == 3


def test_assignment_is_recorded_as_pytorch_records_it() -> None:
    array, values = numbers(4, 3), numbers(2, 3)
    index = np.array([3, 1])
    results = []
    for of in (
        lambda a: torch.tensor(a, requires_grad=True),
        lambda a: nc.tensor(a, requires_grad=True),
    ):
        w, v = of(array), of(values)
        y = w * 2
        y[index] = v * v
        y[0, 1] = 5.0
        (y * y).sum().backward()
        results.append([y.detach().numpy(), w.grad.numpy(), v.grad.numpy()])
    for theirs, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_what_may_not_be_assigned_to() -> None:
    w = nc.tensor(numbers(3), requires_grad=True)
    with pytest.raises(GradientError, match="a leaf that needs a gradient"):
        w[0] = 1
    y = w * 2
    z = ag.exp(y)
    y[0] = 1  # what read it before keeps what it has read
    z.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.exp(2 * numbers(3)), rtol=1e-5)
    with nc.no_grad():
        w[0] = 9
    assert w.numpy().tolist() == [9, 2, 3]


def test_a_compiled_function_may_pick_by_a_tensor() -> None:
    array = numbers(5, 3)
    pick = ag.jit_compile(lambda x, i: (x[i] * 2).sum())
    x, index = nc.tensor(array, requires_grad=True), nc.tensor([4, 0, 4, -2])
    for _ in range(2):
        x.grad = None
        pick(x, index).backward()
        wanted = np.zeros_like(array)
        np.add.at(wanted, [4, 0, 4, -2], 2)
        np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_second_derivatives() -> None:
    x = nc.tensor(numbers(4), requires_grad=True)
    for picked in (x[[1, 1, 2]], x[np.array([True, False, True, True])]):
        (first,) = ag.grad((picked * picked * picked).sum(), [x], create_graph=True)
        (second,) = ag.grad(first.sum(), [x])
        times = np.zeros(4) if picked is None else np.bincount([1, 1, 2], minlength=4)
        if picked.shape == (3,) and float(picked[0].item()) == 1.0:
            times = np.array([1, 0, 1, 1])
        np.testing.assert_allclose(second.numpy(), 6 * numbers(4) * times, rtol=1e-6)
