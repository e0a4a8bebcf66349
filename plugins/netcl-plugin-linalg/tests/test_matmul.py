"""matmul, bmm and linear: operators and errors; their cases say the rest."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import DtypeError, ShapeError


def test_the_operator_and_its_reflected_form() -> None:
    a = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal((nc.tensor(a) @ a.T).to_host(), a @ a.T)
    np.testing.assert_array_equal((a @ nc.tensor(a.T)).to_host(), a @ a.T)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.matmul(x, x), ShapeError, "equal inner sizes, not 3 and 2"),
        (lambda x: ag.matmul(x, nc.Tensor.zeros((4, 5, 3, 2))[0, 0, 0, 0]), ShapeError, "0-d"),
        (lambda x: ag.matmul(x, x.T.astype("float16")), DtypeError, "float32 and float16"),
        (lambda x: ag.linear(x, nc.Tensor.zeros((4, 2))), ShapeError, r"weight \(out, in\)"),
        (lambda x: ag.linear(x, x, nc.Tensor.zeros(3)), ShapeError, r"bias of shape \(3,\)"),
        (lambda x: ag.bmm(x, x), ShapeError, "bmm: 2 and 2 dimensions"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.zeros((2, 3)))
