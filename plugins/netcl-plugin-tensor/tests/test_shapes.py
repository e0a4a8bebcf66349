"""Shape ops and indexing: values, gradients, errors."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError
from netcl_core.testing import check_op, usable_devices

X = np.random.default_rng(1).standard_normal((4, 3, 5))

VIEWS = {
    "reshape": (lambda x: ag.reshape(x, (6, -1)), lambda x: x.reshape(6, -1)),
    "reshape method": (lambda x: x.reshape(5, 12), lambda x: x.reshape(5, 12)),
    "flatten": (ag.flatten, lambda x: x.flatten()),
    "flatten some": (lambda x: ag.flatten(x, 1), lambda x: x.flatten(1)),
    "unsqueeze": (lambda x: ag.unsqueeze(x, -1), lambda x: x.unsqueeze(-1)),
    "squeeze": (lambda x: ag.squeeze(x[:, :1], 1), lambda x: x[:, :1].squeeze(1)),
    "permute": (lambda x: ag.permute(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1)),
    "transpose": (lambda x: ag.transpose(x, 1, 2), lambda x: x.transpose(1, 2)),
    "T": (lambda x: x[0].T, lambda x: x[0].T),
    "expand": (lambda x: ag.expand(x, (7, 4, 3, 5)), lambda x: x.expand(7, 4, 3, 5)),
    "expand ones": (lambda x: ag.expand(x[:, :1], (4, 6, 5)), lambda x: x[:, :1].expand(4, 6, 5)),
}
INDICES = {
    "int": 1,
    "negative": -1,
    "slice": slice(1, 3),
    "step": (slice(None, None, 2), slice(None), slice(1, None, 3)),
    "mixed": (1, ..., None, slice(1, 3)),
    "ellipsis": (..., 0),
    "empty": slice(2, 2),
    "all ints": (0, 1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_shape_op_equals_pytorch(name: str) -> None:
    op, torch_op = VIEWS[name]
    check_op(op, [X], torch_op)


@pytest.mark.parametrize("name", INDICES)
def test_getitem_equals_pytorch(name: str) -> None:
    index = INDICES[name]
    check_op(lambda x: x[index], [X], lambda x: x[index])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float16", "float64"])
def test_a_copy_keeps_every_bit(dtype: str) -> None:
    data = (np.arange(60).reshape(4, 15) * 3 % 7).astype(dtype)
    for device in usable_devices(dtype):
        found = ag.transpose(nc.Tensor.from_host(data, device)).to_host()
        np.testing.assert_array_equal(found, data.T)
        assert found.dtype == data.dtype


def test_a_negative_step_reverses() -> None:
    for device in usable_devices():
        found = nc.Tensor.from_host(X, device, "float32")[::-1, 1, ::-2]
        np.testing.assert_array_equal(found.to_host(), X.astype("float32")[::-1, 1, ::-2])


def test_a_reshape_shares_its_buffer_and_its_version() -> None:
    x = nc.Tensor.zeros((2, 3))
    y = ag.reshape(x, (6,)).value
    assert y.buffer is x.buffer
    x.copy_(np.ones((2, 3), "float32"))
    assert y.version == x.version == 1


def test_six_dimensions() -> None:
    x = np.random.default_rng(2).standard_normal((2, 3, 2, 1, 3, 2))
    check_op(
        lambda x: ag.permute(x, (5, 2, 0, 4, 1, 3)), [x], lambda x: x.permute(5, 2, 0, 4, 1, 3)
    )


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
