"""nc.linalg: factorizations, solutions, inverses and norms of matrices, with gradients.

    >>> nc.linalg.solve(nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([1.0, 1.0])).tolist()
    [0.5, 0.25]

Names and arguments are PyTorch's. The host's LAPACK computes, by NumPy, in float32 or float64.
"""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_core.plugins import absent
from netcl_plugin_linalg.factors import cholesky as cholesky
from netcl_plugin_linalg.factors import cholesky_ex as cholesky_ex
from netcl_plugin_linalg.factors import det as det
from netcl_plugin_linalg.factors import eigh as eigh
from netcl_plugin_linalg.factors import eigvalsh as eigvalsh
from netcl_plugin_linalg.factors import inv as inv
from netcl_plugin_linalg.factors import inv_ex as inv_ex
from netcl_plugin_linalg.factors import matrix_rank as matrix_rank
from netcl_plugin_linalg.factors import pinv as pinv
from netcl_plugin_linalg.factors import qr as qr
from netcl_plugin_linalg.factors import slogdet as slogdet
from netcl_plugin_linalg.factors import svd as svd
from netcl_plugin_linalg.factors import svdvals as svdvals
from netcl_plugin_linalg.host import matrices as _matrices
from netcl_plugin_linalg.norms import cond as cond
from netcl_plugin_linalg.norms import matrix_norm as matrix_norm
from netcl_plugin_linalg.norms import norm as norm
from netcl_plugin_linalg.norms import vector_norm as vector_norm
from netcl_plugin_linalg.solving import lstsq as lstsq
from netcl_plugin_linalg.solving import solve as solve
from netcl_plugin_linalg.solving import solve_ex as solve_ex
from netcl_plugin_linalg.solving import solve_triangular as solve_triangular
from netcl_plugin_linalg.solving import tensorinv as tensorinv
from netcl_plugin_linalg.solving import tensorsolve as tensorsolve
from netcl_plugin_linalg.triangular import householder_product as householder_product
from netcl_plugin_linalg.triangular import lu as lu
from netcl_plugin_linalg.triangular import lu_factor as lu_factor
from netcl_plugin_linalg.triangular import lu_factor_ex as lu_factor_ex
from netcl_plugin_linalg.triangular import lu_solve as lu_solve
from netcl_plugin_linalg.triangular import matrix_exp as matrix_exp


def matrix_power(A: Any, n: int) -> Any:
    """A multiplied n times with itself, by squaring; n < 0: of the inverse.

    >>> nc.linalg.matrix_power(nc.tensor([[1.0, 1.0], [0.0, 1.0]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]

    Raises:
        AttributeValueError: Unless given an int.
    """
    (x,) = _matrices("linalg.matrix_power", A, square=True)
    if isinstance(n, bool) or not isinstance(n, int):
        raise AttributeValueError(message("linalg.matrix_power", f"n={n!r}", "an int"))
    base, count = (inv(x) if n < 0 else x), abs(n)
    power = ag.expand(nc.eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    while count:
        power = ag.matmul(power, base) if count % 2 else power
        count //= 2
        base = ag.matmul(base, base) if count else base
    return ag.add(power, ag.mul(x, 0.0)) if n == 0 else power


def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of matrices in a row, in the order that takes the fewest multiplications.

    >>> nc.linalg.multi_dot([nc.rand(2, 3), nc.rand(3, 4), nc.rand(4, 5)]).shape
    (2, 5)

    Args:
        tensors: The tensors, in order.

    Raises:
        ShapeError: The shapes do not fit.
    """
    given = [ag.as_operand(x) for x in tensors]
    if len(given) < 2 or any(x.ndim != 2 for x in given[1:-1]):
        expected = "two tensors at least, matrices but at the ends"
        raise ShapeError(message("linalg.multi_dot", f"{[x.shape for x in given]}", expected))
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    given[0] = ag.unsqueeze(given[0], 0) if first else given[0]
    given[-1] = ag.unsqueeze(given[-1], 1) if last else given[-1]
    sizes = [x.shape[0] for x in given] + [given[-1].shape[1]]
    count = len(given)
    cost = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j] = min((cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] *
                              sizes[j + 1], k) for k in range(i, j))  # fmt: skip

    def product(i: int, j: int) -> Any:
        k = cost[i, j][1]
        return given[i] if i == j else ag.matmul(product(i, k), product(k + 1, j))

    product_of_all = product(0, count - 1)
    shape = (*[sizes[0]] * (not first), *[sizes[-1]] * (not last))
    return ag.reshape(product_of_all, shape)


def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """The cross product of vectors of three elements along an axis.

    >>> nc.linalg.cross(nc.tensor([1.0, 0.0, 0.0]), nc.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return ag.cross(input, other, dim)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """The sums of products along an axis.

    >>> nc.linalg.vecdot(nc.tensor([1.0, 2.0]), nc.tensor([3.0, 4.0])).item()
    11.0
    """
    return ag.sum(ag.mul(x, y), dim)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as a view.

    >>> nc.linalg.diagonal(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [2.0, 4.0]

    Args:
        A: Matrices (..., m, n).
        offset: Which diagonal: above the main one if positive.
        dim1: The first dimension of the matrices.
        dim2: The second one.
    """
    return ag.diagonal(A, offset, dim1, dim2)


def vander(x: Any, N: int | None = None) -> Any:
    """The powers 0 to N - 1 of each element, in a new last dimension; N is the last size.

    For tensors of any shape (..., n); the result has the shape (..., n, N).

    >>> nc.linalg.vander(nc.tensor([1.0, 2.0, 3.0]), N=3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [1.0, 3.0, 9.0]]
    """
    given = ag.atleast_1d(ag.as_operand(x))
    count = given.shape[-1] if N is None else N
    powers = [ag.full_like(given, 1)]
    for _ in range(count - 1):
        powers.append(ag.mul(powers[-1], given))
    return ag.stack(powers[:count], -1)


if not TYPE_CHECKING:  # so that type checkers still see a misspelt name

    def __getattr__(name):
        return absent("linalg", name, [each for each in globals() if each[0] != "_"])
