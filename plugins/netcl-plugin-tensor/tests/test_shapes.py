"""Shape ops and indexing: what their cases do not say, and errors."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

X = np.random.default_rng(1).standard_normal((4, 3, 5))


def test_a_reshape_shares_its_buffer_and_its_version() -> None:
    x = nc.Tensor.zeros((2, 3))
    y = ag.reshape(x, (6,)).value
    assert y.buffer is x.buffer
    x.copy_(np.ones((2, 3), "float32"))
    assert y.version == x.version == 1


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
