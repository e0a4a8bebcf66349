"""Arguments that other ops compute, on whole numbers and in wrong calls; names of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError

torch = pytest.importorskip("torch")

X, Y = np.array([-7, -1, 0, 5, 9]), np.array([2, -3, 4, 2, -4])
WHOLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, x, y: m.add(x, y, alpha=3),
    "sub": lambda m, x, y: m.sub(x, y, alpha=-2),
    "trunc": lambda m, x, y: m.div(x, y, rounding_mode="trunc"),
    "floor": lambda m, x, y: m.div(x, y, rounding_mode="floor"),
    "true": lambda m, x, y: m.div(x, y, rounding_mode=None),
    "clamp": lambda m, x, y: m.clamp(x, y, y + 3),
    "0-d bound": lambda m, x, y: m.clamp(x, max=m.tensor(3)),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers(name: str, dtype: str) -> None:
    x, y = X.astype(dtype), Y.astype(dtype)
    given = WHOLE[name](ag, nc.tensor(x), nc.tensor(y))
    wanted = WHOLE[name](torch, torch.tensor(x), torch.tensor(y)).numpy()
    assert given.dtype == str(wanted.dtype)
    np.testing.assert_array_equal(given.to_host(), wanted)


def test_they_fuse() -> None:
    function = ag.jit_compile(lambda x, y: ag.round(ag.clamp(ag.add(x, y, alpha=2), y), decimals=1))
    x, y = nc.tensor([1.23, -4.56]), nc.tensor([0.5, 0.75])
    np.testing.assert_allclose(function(x, y).to_host(), [2.2, 0.8], rtol=1e-6)
    assert function.lower(x, y).launches == 1


def test_the_bound_has_a_gradient_without_dimensions() -> None:
    x, low = ag.tensor([-1.0, 2.0], True), ag.tensor(0.5, True)
    (ag.clamp(x, low) * 3).backward(np.ones(2, np.float32))
    assert x.grad.tolist() == [0, 3]
    assert low.grad.item() == 3


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.add(x, x, alpha="2"), ArgumentError, "add: mul: an operand of type str"),
        (lambda x: ag.add(1, nc.tensor([2]), alpha=0.5), AttributeValueError, "add: alpha=0.5 for"),
        (lambda x: ag.div(x, x, rounding_mode="up"), AttributeValueError, "None, 'trunc' or"),
        (lambda x: ag.round(x, decimals=0.5), AttributeValueError, "round: decimals=0.5"),
        (
            lambda x: ag.round(nc.tensor([1]), decimals=1),
            DtypeError,
            "round: decimals=1 of a int64",
        ),
        (lambda x: ag.clamp(x, nc.ones(3)), ShapeError, "clamp: clamp_min: shapes"),
        (lambda x: ag.add(x, input=x, x=x), ArgumentError, "add: input and x were given"),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.ones(2))
