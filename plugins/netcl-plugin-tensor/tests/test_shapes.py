"""Shape ops and indexing: what their cases do not say, and errors."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

X = np.random.default_rng(1).standard_normal((4, 3, 5))


def test_a_reshape_shares_its_buffer_and_its_version() -> None:
    x = nc.Tensor.zeros((2, 3))
    y = ag.reshape(x, (6,)).value
    assert y.buffer is x.buffer
    x.overwrite(np.ones((2, 3), "float32"))
    assert y.version == x.version == 1


@pytest.mark.parametrize(
    "copied",
    [
        lambda x: x.repeat(1, 3),
        lambda x: x.repeat(1, 1),
        lambda x: ag.tile(x, (3, 1, 1)),
        lambda x: x.repeat_interleave(3, 1),
        lambda x: x.repeat_interleave(1, 0),
        lambda x: x.scatter(0, nc.zeros((0, 1), dtype="int64"), x),
        lambda x: x.index_add(0, nc.zeros(0, dtype="int64"), x[:0]),
    ],
)
def test_a_copy_is_written_alone(copied: Any) -> None:
    x = nc.tensor([[1.0], [2.0]])
    y = copied(x)
    right = y.numpy()
    y[..., 0] = right[..., 0] = 7.0
    assert y.is_contiguous() and x.tolist() == [[1.0], [2.0]]
    assert y.tolist() == right.tolist()


def test_iterating_and_len() -> None:
    x = nc.Tensor.from_host(np.arange(6).reshape(3, 2))
    assert len(x) == 3
    assert [row.to_host().tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.reshape(x, (2, 2)), ShapeError, r"reshape: \(4, 3, 5\) to \(2, 2\)"),
        (lambda x: ag.reshape(x, (-1, -1)), ShapeError, "60 elements"),
        (lambda x: ag.permute(x, (0, 1)), AttributeValueError, "each of the 3 dimensions once"),
        (lambda x: ag.transpose(x, 0, 5), AttributeValueError, "axis 5 of a tensor with 3"),
        (lambda x: ag.expand(x, (4, 4, 5)), ShapeError, "expand"),
        (lambda x: x[4], IndexError, "4 on axis 0"),
        (lambda x: x[0, 0, 0, 0], ShapeError, "3 entries"),
        (lambda x: x[1.5], ArgumentError, "index of type float"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.from_host(X, dtype="float32"))


@pytest.mark.parametrize(
    "index", [slice(1, None), (slice(None), slice(1)), slice(None, None, 2)], ids=str
)
def test_a_slice_on_numpy_is_copied_once(index: Any) -> None:
    with nc.use_device("numpy"):
        x = nc.Tensor.ones((1 << 17, 2))
        x[index]
        tracemalloc.start()
        try:
            found = x[index]
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 1.5 * found.to_host().nbytes


@pytest.mark.parametrize("form", [bool, np.bool_, np.array, nc.tensor])
@pytest.mark.parametrize("value", [True, False])
def test_a_bool_is_a_mask(form: Any, value: bool) -> None:
    index = form(value)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for device in usable_devices():
        x = nc.Tensor.from_host(array, device, requires_grad=True)
        for make in (lambda m: m, lambda m: (m, slice(1, 2)), lambda m: (slice(None), m),
                     lambda m: (..., m), lambda m: (None, m, slice(None), slice(None, None, 2)),
                     lambda m: (m, None), lambda m: (m, ...)):  # fmt: skip
            right = array[make(value)]
            found = x[make(index)]
            assert found.shape == right.shape
            np.testing.assert_array_equal(found.to_host(), right)
            x.grad = None
            ag.sum(ag.mul(found, 2.0)).backward()
            spread = np.zeros_like(array)
            np.add.at(spread, make(value), 2.0)
            np.testing.assert_array_equal(x.grad.to_host(), spread)
        zero = nc.Tensor.full((), 3.0, device=device)
        np.testing.assert_array_equal(zero[index].to_host(), np.array(3.0)[value])
    compiled = ag.jit_compile(lambda x: ag.mul(x[index], 2.0))
    if form is not nc.tensor:  # whose value is data
        np.testing.assert_array_equal(compiled(nc.tensor(array)).to_host(), array[value] * 2)


def test_an_index_that_is_none_is_refused_by_name() -> None:
    given = "getitem: an index of type float; expected ints, slices"
    with pytest.raises(nc.errors.ArgumentError, match=given):
        nc.Tensor.zeros((2, 3))[1.0]
