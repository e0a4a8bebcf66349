"""Names that factorizations have outside nc.linalg: PyTorch's first ones, and methods."""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_plugin_linalg import namespace, triangular
from netcl_plugin_linalg.host import matrices

_SVD = namedtuple("_SVD", ("U", "S", "V"))


def cholesky(input: Any, upper: bool = False) -> Any:
    """The triangle L with L L^T = input, or its transpose: `nc.linalg.cholesky`.

    For matrices (..., n, n) in float32 or float64.

    >>> ag.cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()
    [[2.0, 0.0], [1.0, 2.0]]

    Args:
        upper: Whether the triangle is the upper one.
    """
    return namespace.cholesky(input, upper=upper)


def inverse(input: Any) -> Any:
    """The inverse of square matrices: `nc.linalg.inv`.

    For matrices (..., n, n) in float32 or float64.

    >>> ag.inverse([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return namespace.inv(input)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudoinverse of matrices: `nc.linalg.pinv`.

    For matrices (..., n, m) in float32 or float64.

    >>> ag.pinverse(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).numpy().round(4)
    array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)

    Args:
        rcond: Singular values below it times the largest count as 0.
    """
    return namespace.pinv(input, rcond)


def det(input: Any) -> Any:
    """The determinant of square matrices: `nc.linalg.det`.

    For matrices (..., n, n) in float32 or float64.

    >>> round(ag.det([[1.0, 2.0], [3.0, 4.0]]).item(), 4)
    -2.0
    """
    return namespace.det(input)


def slogdet(input: Any) -> Any:
    """The sign and the logarithm of the determinant: `nc.linalg.slogdet`.

    For matrices (..., n, n) in float32 or float64.

    >>> sign, logarithm = ag.slogdet([[2.0, 0.0], [0.0, 4.0]])
    >>> sign.item(), round(logarithm.item(), 4)
    (1.0, 2.0794)
    """
    return namespace.slogdet(input)


def logdet(input: Any) -> Any:
    """The logarithm of the determinant; NaN where that is below 0, -inf where it is 0.

    For square matrices (..., n, n) in float32 or float64.

    >>> round(ag.logdet([[2.0, 0.0], [0.0, 4.0]]).item(), 4)
    2.0794
    """
    sign, value = namespace.slogdet(input)
    return ag.where(ag.lt(sign, 0), float("nan"), value)


def matrix_power(input: Any, n: int) -> Any:
    """A square matrix n times multiplied with itself: `nc.linalg.matrix_power`.

    For matrices (..., n, n) of any dtype of numbers.

    >>> ag.matrix_power([[1.0, 1.0], [0.0, 1.0]], 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    return namespace.matrix_power(input, n)


def matrix_exp(input: Any) -> Any:
    """The exponential of square matrices: `nc.linalg.matrix_exp`.

    >>> ag.matrix_exp([[0.0, 0.0], [0.0, 1.0]]).numpy().round(4)
    array([[1.    , 0.    ],
           [0.    , 2.7183]], dtype=float32)
    """
    return namespace.matrix_exp(input)


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """A named tuple of `LU` and `pivots`, and `info` if it is asked: `nc.linalg.lu_factor`.

    For matrices (..., n, n) in float32 or float64.

    >>> LU, pivots = ag.lu(nc.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> LU.tolist(), pivots.tolist()
    ([[2.0, 2.0], [0.5, 1.0]], [2, 2])

    Args:
        pivot: Has to be True.
        get_infos: Whether a third result tells of singular matrices.
    """
    if get_infos:
        return triangular.lu_factor_ex(A, pivot=pivot)
    return triangular.lu_factor(A, pivot=pivot)


def qr(input: Any, some: bool = True) -> Any:
    """A named tuple of Q and R, reduced if `some`: `nc.linalg.qr`.

    For matrices (..., n, m) in float32 or float64.

    >>> q, r = ag.qr([[1.0, 2.0], [3.0, 4.0]])
    >>> np.allclose(q @ r, [[1.0, 2.0], [3.0, 4.0]], atol=1e-5)
    True
    """
    return namespace.qr(input, "reduced" if some else "complete")


def svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """A named tuple of U, S and V, not V^T, with U diag(S) V^T = input; reduced if `some`.

    For matrices (..., n, m) in float32 or float64.

    Without `compute_uv` U and V are zeros.

    >>> u, s, v = ag.svd([[3.0, 0.0], [0.0, 2.0]])
    >>> s.numpy().round(4).tolist()
    [3.0, 2.0]
    """
    (x,) = matrices("svd", input)
    if not compute_uv:
        zeros = [ag.matmul(ag.mul(y, 0), ag.transpose(ag.mul(y, 0), -1, -2)) for y in
                 (x.detach(), ag.transpose(x.detach(), -1, -2))]  # fmt: skip
        return _SVD(zeros[0], namespace.svdvals(x), zeros[1])
    u, s, vh = namespace.svd(x, not some)
    return _SVD(u, s, ag.transpose(vh, -1, -2))


OPERATORS: Final = (
    *(composite(function, ("input",)) for function in (cholesky, inverse, pinverse, det, slogdet,
                                                       logdet, matrix_power, matrix_exp, qr, svd)),
    composite(lu, ("A",)),
    composite(triangular.cholesky_solve, ("input", "L")),
    composite(triangular.cholesky_inverse, ("input",)),
    composite(triangular.triangular_solve, ("input", "A")),
    composite(triangular.lu_solve_of, ("input", "LU_data", "LU_pivots"), method=False),
    composite(triangular.lu_unpack, ("LU_data", "LU_pivots"), method=False),
    composite(triangular.svd_lowrank, ("A",), method=False),
    composite(triangular.pca_lowrank, ("A",), method=False),
)  # fmt: skip
