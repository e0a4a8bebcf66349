"""Arguments by PyTorch's and by NumPy's names, for ops of all packages."""

from __future__ import annotations

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError


def test_operands_by_pytorchs_names() -> None:
    x, y = nc.tensor([[1.0, 2.0], [3.0, 4.0]]), nc.tensor([[2.0, 0.5], [1.0, -1.0]])
    both = {"input": x, "other": y}
    for op in ("add", "mul", "maximum", "eq", "remainder", "logaddexp", "matmul"):
        np.testing.assert_array_equal(getattr(ag, op)(**both), getattr(ag, op)(x, y))
        np.testing.assert_array_equal(getattr(x, op)(other=y), getattr(ag, op)(x, y))
    for op in ("exp", "sum", "softmax", "logsumexp"):
        rest = {} if op == "exp" else {"dim": 1}
        np.testing.assert_array_equal(getattr(ag, op)(input=x, **rest), getattr(ag, op)(x, **rest))
    np.testing.assert_array_equal(ag.where(x > 2, **both), ag.where(x > 2, x, y))
    np.testing.assert_array_equal(ag.pow(input=x, exponent=2), x**2)
    np.testing.assert_array_equal(
        ag.jit_compile(lambda a, b: ag.sub(input=a, other=b))(x, y), x - y
    )


def test_numpys_axis_of_ops_that_take_dims() -> None:
    x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(ag.flip(x, axis=0), np.flip(x.numpy(), axis=0))
    np.testing.assert_array_equal(ag.roll(x, 1, axis=1), np.roll(x.numpy(), 1, axis=1))


def test_two_names_of_one_argument() -> None:
    with pytest.raises(ArgumentError, match="sum: axis and dim were given"):
        ag.sum(nc.ones(2), axis=0, dim=0)
