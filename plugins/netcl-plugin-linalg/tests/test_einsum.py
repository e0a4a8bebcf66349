"""einsum and the products made of others, against PyTorch; how they fuse; what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, DtypeError, ShapeError

torch = pytest.importorskip("torch")
SIZES = {"a": 2, "b": 6, "c": 3, "i": 2, "j": 3, "k": 4, "l": 5, "A": 3}
EQUATIONS = (
    "ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ii", "ii->i", "iij->ji", "bij,bkj->bik", "i,i->",
    "i,j->ij", "ij,ij->i", "ij,kl->ijkl", "bi,bj->bij", "ij,jk,kl->il", "bijk,bkl->lbij",
    "ij,jk->", "aij,bjk->abik", "ik,jkl,il->ij", "ji,jk->ik", "ba", "Ab,bA->A", "ij,ik,ij->jk",
)  # fmt: skip


def operands(equation: str, dtype: str) -> list[Any]:
    random = np.random.default_rng(len(equation))
    terms = equation.split("->")[0].split(",")
    return [(random.normal(size=[SIZES[x] for x in term]) * 3).astype(dtype) for term in terms]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("device", ["default", "numpy"])
def test_equations(device: str, dtype: str) -> None:
    with nc.use_device(nc.default_device() if device == "default" else "numpy"):
        for equation in EQUATIONS:
            arrays = operands(equation, dtype)
            found = ag.einsum(equation, *map(nc.tensor, arrays))
            wanted = torch.einsum(equation, *map(torch.tensor, arrays)).numpy()
            assert (found.shape, found.dtype) == (wanted.shape, dtype), equation
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4, err_msg=equation)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(7, 1, 2, 3), (4, 3, 5)]),
        ("...ij,jk", [(7, 2, 3), (3, 5)]),
        ("i...->...", [(3, 4, 5)]),
        ("b...,b...->...", [(2, 3), (2, 1)]),
        ("...,...", [(3, 1), (1, 4)]),
        ("ij,ij->ij", [(1, 3), (4, 3)]),
        ("ij,ij->j", [(1, 3), (4, 3)]),
        ("i,i->", [(0,), (0,)]),
        (" i j , j k -> i k ", [(0, 3), (3, 2)]),
    ],
)
def test_ellipses_and_broadcasting(equation: str, shapes: Any) -> None:
    arrays = [np.random.default_rng(1).normal(size=shape).astype("float32") for shape in shapes]
    found = ag.einsum(equation, [nc.tensor(x) for x in arrays])
    wanted = torch.einsum(equation, [torch.tensor(x) for x in arrays]).numpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_product_is_one_kernel_with_its_neighbours() -> None:
    function = ag.jit_compile(lambda x, y: ag.relu(ag.einsum("bij,bkj->bik", x, y) * 2))
    x, y = nc.ones(2, 3, 4), nc.ones(2, 5, 4)
    np.testing.assert_array_equal(function(x, y), np.full((2, 3, 5), 8.0))
    assert function.lower(x, y).launches == 1
    layer = ag.jit_compile(lambda x, w, b: ag.linear_relu(x, w, b))
    assert layer.lower(nc.ones(4, 3), nc.ones(5, 3), nc.ones(5)).launches == 1


def test_what_is_added_does_not_count_times_zero() -> None:
    a, b = nc.ones(2, 3), nc.ones(3, 2)
    found = ag.addmm(nc.tensor([np.nan, np.inf]), a, b, beta=0, alpha=0.5)
    np.testing.assert_array_equal(found, np.full((2, 2), 1.5))


def test_cross_takes_the_first_axis_of_three() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype("float32")
    wanted = torch.linalg.cross(torch.tensor(x), torch.tensor(y), dim=1).numpy()
    np.testing.assert_allclose(ag.cross(nc.tensor(x), nc.tensor(y)), wanted, rtol=1e-5, atol=1e-6)


M: Any = np.ones((2, 3), "float32")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ag.einsum("ij,jk->ik", M), ArgumentError, "2 subscripts in 'ij,jk->ik' for 1"),
        (lambda: ag.einsum("ij->iz", M), ArgumentError, "the result 'iz' of 'ij'"),
        (lambda: ag.einsum("i1", M), ArgumentError, "the subscripts 'i1'; expected letters"),
        (lambda: ag.einsum("i", M), ShapeError, "the subscripts 'i' for 2 dimensions"),
        (lambda: ag.einsum("ij,jk", M, M), ShapeError, "'j' for sizes 3 and 2"),
        (lambda: ag.einsum("ii", M), ShapeError, "'i' for sizes 2 and 3; expected one size"),
        (lambda: ag.einsum("ij"), ArgumentError, "einsum: no operands"),
        (lambda: ag.einsum("i,i", M[0], np.ones(3)), DtypeError, "float32 and float64; expected"),
        (lambda: ag.dot(M, M), ShapeError, "dot: shapes .* expected 1 and 1 dimensions"),
        (lambda: ag.mv(M, M[0].astype("float64")), DtypeError, "mv: float32 and float64"),
        (lambda: ag.cross(M, M, 0), ShapeError, "cross: .* along axis 0; expected 3 elements"),
        (lambda: ag.bias_add(M, M), ShapeError, "bias_add: bias of shape .* expected \\(3,\\)"),
    ],
)
def test_wrong_calls_are_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
