"""Parts of nc.linalg: LU and Cholesky factors, solutions by them, reflections, exponentials."""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Spec, Tensor
from netcl_core.autograd import Saved
from netcl_core.errors import AttributeValueError, DeviceError, ShapeError, message
from netcl_plugin_linalg import host
from netcl_plugin_linalg.host import matrices, mt

_LU = namedtuple("_LU", ("P", "L", "U"))
_Factors = namedtuple("_Factors", ("LU", "pivots"))
_FactorsInfo = namedtuple("_FactorsInfo", ("LU", "pivots", "info"))


def _eye(x: Any, size: int) -> Any:
    return nc.eye(size, dtype=x.dtype, device=x.device)


# -- LU ----------------------------------------------------------------------------------


def _run_lu(x: Any) -> tuple[Any, Any]:
    """Gaussian elimination with the largest pivot of each column, all matrices at once (Golub, Van
    Loan, Matrix Computations, algorithm 3.4.1)."""
    factors, steps = np.array(x), min(x.shape[-2:])
    flat = factors.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])
    every = np.arange(len(flat))
    pivots = np.empty((len(flat), steps), np.int32)
    for k in range(steps):
        rows = k + np.abs(flat[:, k:, k]).argmax(1)
        pivots[:, k] = rows + 1
        flat[every, k], flat[every, rows] = flat[every, rows], flat[every, k]
        pivot = flat[:, k, k, None]
        flat[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, None, k, k + 1 :]
    return factors, pivots.reshape(*x.shape[:-2], steps)


def _infer_lu(x: Spec) -> tuple[Spec, Spec]:
    return x, Spec((*x.shape[:-2], min(x.shape[-2:])), "int32")


def _lu_backward(saved: Saved, grad: Any, _: Any) -> Sequence[Any]:
    """P L^-T (tril(L^T G_L - G_U2 U2^T, -1) + triu(G_U U^T - L2^T G_L2)) U^-T, of the square part,
    as PyTorch's linalg_lu_backward has it."""
    if grad is None:
        return [None]
    packed, pivots = saved.outputs
    *_, rows, columns = packed.shape
    k = min(rows, columns)
    lower, upper = _lower(packed), _upper(packed)
    first, last = ag.narrow(lower, -2, 0, k), ag.narrow(upper, -1, 0, k)
    grad_lower = ag.tril(ag.narrow(grad, -1, 0, k), -1)
    grad_upper = ag.triu(ag.narrow(grad, -2, 0, k))
    below = ag.matmul(mt(lower), grad_lower)
    above = ag.matmul(grad_upper, mt(upper))
    if columns > k:
        wide = [ag.narrow(x, -1, k, columns - k) for x in (grad_upper, upper)]
        square = ag.matmul(ag.narrow(grad_upper, -1, 0, k), mt(last))
        inner = ag.add(ag.tril(ag.sub(below, ag.matmul(wide[0], mt(wide[1]))), -1), ag.triu(square))
    elif rows > k:
        tall = [ag.narrow(x, -2, k, rows - k) for x in (lower, grad_lower)]
        square = ag.matmul(mt(first), ag.narrow(grad_lower, -2, 0, k))
        inner = ag.add(ag.tril(square, -1), ag.triu(ag.sub(above, ag.matmul(mt(tall[0]), tall[1]))))
    else:
        inner = ag.add(ag.tril(below, -1), ag.triu(above))
    core = mt(host.SOLVE(last, mt(host.SOLVE(mt(first), inner))))
    if columns > k:
        core = ag.cat([core, host.SOLVE(mt(first), wide[0])], -1)
    elif rows > k:
        core = ag.cat([core, mt(host.SOLVE(last, mt(tall[1])))], -2)
    return [ag.matmul(_permutation(pivots, rows, packed), core)]


LU: Final = host.operator(
    "linalg_lu", lambda x: (matrices("linalg_lu", x), {}), _run_lu, _infer_lu, _lu_backward,
    "linalg_lu(x): L without its diagonal and U in one matrix, and the rows swapped, from 1 on."
    "\n\n>>> packed, rows = ag.linalg_lu([[1.0, 2.0], [2.0, 2.0]])\n"
    ">>> packed.tolist(), rows.tolist()\n([[2.0, 2.0], [0.5, 1.0]], [2, 2])",
)  # fmt: skip


def _lower(packed: Any) -> Any:
    count = min(packed.shape[-2:])
    part = ag.tril(ag.narrow(packed, -1, 0, count), -1)
    own = nc.eye(packed.shape[-2], count, dtype=packed.dtype, device=packed.device)
    return ag.add(part, own)


def _upper(packed: Any) -> Any:
    return ag.triu(ag.narrow(packed, -2, 0, min(packed.shape[-2:])))


def _permutation(pivots: Any, rows: int, like: Any) -> Any:
    """P with A = P L U, of the swaps that LAPACK gives; the host reads these."""
    pivots = ag.as_operand(pivots, like.device)
    known = "int" in pivots.dtype and like.ndim > 1 and pivots.shape[:-1] == like.shape[:-2]
    if pivots.device != like.device:
        given = f"pivots on {pivots.device.name} for {like.device.name}"
        raise DeviceError(message("lu_unpack", given, "one device"))
    low, high = pivots.int_range() if known and pivots.size else (1, rows)
    if not known or not pivots.ndim or low < 1 or high > rows:
        given = f"{pivots.dtype} pivots of shape {pivots.shape} for {like.shape}"
        raise AttributeValueError(message("lu_unpack", given, "one for each row, from 1 on"))
    swaps = pivots.to_host().reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1]) - 1
    order = np.tile(np.arange(rows), (len(swaps), 1))
    every = np.arange(len(swaps))
    for k in range(swaps.shape[1]):
        there = swaps[:, k]
        order[every, k], order[every, there] = order[every, there], order[every, k]
    permutation = np.zeros((len(swaps), rows, rows), like.dtype)
    permutation[every[:, None], order, np.arange(rows)] = 1
    return Tensor.from_host(permutation.reshape(*pivots.shape[:-1], rows, rows), like.device)


def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """A named tuple of `LU`, L below the diagonal and U from it on, and the `pivots`: the row that
    each was swapped with, from 1 on.

    >>> lu, pivots = nc.linalg.lu_factor(nc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> lu.shape, pivots.shape
    ((2, 2), (2,))
    """
    _pivoted("linalg.lu_factor", pivot)
    return _Factors(*LU(*matrices("linalg.lu_factor", A)))


def _pivoted(who: str, pivot: bool) -> None:
    if not pivot:
        raise AttributeValueError(message(who, "pivot=False", "pivot=True, as on CPUs"))


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor` and `info`: the first column whose pivot is 0, from 1 on, or 0."""
    packed, pivots = lu_factor(A, pivot=pivot)
    zero = ag.eq(ag.diagonal(packed, 0, -2, -1), 0)
    first = ag.add(ag.argmax(zero.astype("int32"), -1), 1) if zero.shape[-1] else 0
    info = ag.where(ag.any(zero, -1), first, 0).astype("int32")
    return _FactorsInfo(packed, pivots, info)


def lu(A: Any, *, pivot: bool = True) -> Any:
    """A named tuple of `P`, `L` and `U` with P L U = A.

    >>> p, l, u = nc.linalg.lu(nc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> (p @ l @ u).numpy().round(4).tolist()
    [[4.0, 2.0], [2.0, 5.0]]
    """
    return lu_unpack(*lu_factor(A, pivot=pivot))


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True,
              unpack_pivots: bool = True) -> Any:  # fmt: skip
    """A named tuple of `P`, `L` and `U` from what `lu_factor` gives; what is not asked is empty.

    For matrices (..., n, m) of any dtype.

    >>> P, L, U = ag.lu_unpack(*ag.lu(nc.tensor([[1.0, 2.0], [2.0, 2.0]])))
    >>> (P @ L @ U).tolist()
    [[1.0, 2.0], [2.0, 2.0]]

    Args:
        LU_data: What `lu` gave first, and
        LU_pivots: what it gave second.
        unpack_data: Whether L and U are wanted.
        unpack_pivots: Whether P is wanted.
    """
    (packed,) = matrices("lu_unpack", LU_data)
    none = Tensor.empty((0,), packed.dtype, packed.device)
    p = _permutation(LU_pivots, packed.shape[-2], packed) if unpack_pivots else none
    both = (_lower(packed), _upper(packed)) if unpack_data else (none, none)
    return _LU(p, *both)


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X with A X = B by the factors of A, or X A = B if not `left`; of A^T if `adjoint`."""
    packed, b = matrices("linalg.lu_solve", LU, B, square=True)
    if not left:
        return mt(lu_solve(packed, pivots, mt(b), adjoint=not adjoint))
    p = _permutation(pivots, packed.shape[-1], packed)
    if adjoint:
        inner = _triangular(mt(_lower(packed)), _triangular(mt(_upper(packed)), b))
        return ag.matmul(p, inner)
    return _triangular(_upper(packed), _triangular(_lower(packed), ag.matmul(mt(p), b)))


def lu_solve_of(input: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """X with A X = input by the factors of A: `nc.linalg.lu_solve`.

    For matrices (..., n, k) and (..., n, n) in float32 or float64.

    >>> LU, pivots = ag.lu(nc.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> ag.lu_solve(nc.tensor([[5.0], [6.0]]), LU, pivots).tolist()
    [[1.0], [2.0]]

    Args:
        LU_data: What `lu` gave first, and
        LU_pivots: what it gave second.
    """
    return lu_solve(LU_data, LU_pivots, input)


lu_solve_of.__name__ = "lu_solve"


def _triangular(a: Any, b: Any) -> Any:
    """X with a X = b, with the leading dimensions that they have together."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return host.SOLVE(*(ag.expand(x, (*lead, *x.shape[-2:])) for x in (a, b)))


# -- by Cholesky's factor ----------------------------------------------------------------


def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """X with A X = input by the factor L of A = L L^T, or U of A = U^T U.

    For matrices (..., n, k) and (..., n, n) in float32 or float64.

    >>> ag.cholesky_solve([[8.0], [3.0]], [[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[2.0], [3.0]]

    Args:
        upper: Whether the triangle is the upper one.
    """
    factor, b = matrices("cholesky_solve", L, input, square=True)
    lower = mt(ag.triu(factor)) if upper else ag.tril(factor)
    return _triangular(mt(lower), _triangular(lower, b))


def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """The inverse of A = L L^T, or of U^T U.

    For matrices (..., n, n) in float32 or float64.

    >>> ag.cholesky_inverse([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.25, 0.0], [0.0, 1.0]]

    Args:
        upper: Whether the triangle is the upper one.
    """
    (factor,) = matrices("cholesky_inverse", input, square=True)
    lower = mt(ag.triu(factor)) if upper else ag.tril(factor)
    return host.INV(ag.matmul(lower, mt(lower)))


def triangular_solve(input: Any, A: Any, upper: bool = True, transpose: bool = False,
                     unitriangular: bool = False) -> Any:  # fmt: skip
    """X with A X = input, and A itself. Only a triangle of A is read.

    For matrices (..., n, k) and (..., n, n) in float32 or float64.

    >>> A, b = nc.tensor([[1.0, 1.0], [0.0, 2.0]]), nc.tensor([[4.0], [2.0]])
    >>> ag.triangular_solve(b, A)[0].tolist()
    [[3.0], [1.0]]

    Args:
        upper: Whether the triangle is the upper one.
        transpose: Whether the transposed matrix is meant.
        unitriangular: Whether the diagonal counts as 1.
    """
    a, right = matrices("triangular_solve", A, input, square=True)
    half = ag.triu(a, int(unitriangular)) if upper else ag.tril(a, -int(unitriangular))
    half = ag.add(half, _eye(a, a.shape[-1])) if unitriangular else half
    return _triangular(mt(half) if transpose else half, right), ag.clone(a)


# -- reflections, exponentials, low rank -------------------------------------------------


def householder_product(A: Any, tau: Any) -> Any:
    """The first columns of a product of reflections I - tau v v^T, v the columns of A below the
    diagonal, with 1 on it (LAPACK's orgqr).

    >>> nc.linalg.householder_product(nc.zeros(3, 2), nc.zeros(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    a, scales = matrices("linalg.householder_product", A, ag.unsqueeze(tau, -1))
    rows, columns = a.shape[-2:]
    if scales.shape[-2] > columns or columns > rows:
        given = f"{a.shape} and tau of {scales.shape[-2]}"
        raise ShapeError(message("linalg.householder_product", given, "rows >= columns >= tau"))
    product = ag.expand(nc.eye(rows, columns, dtype=a.dtype, device=a.device), a.shape)
    product = ag.add(
        product, ag.mul(ag.sum(scales), 0.0)
    )  # which has a gradient without reflections
    vectors = ag.add(ag.tril(a, -1), nc.eye(rows, columns, dtype=a.dtype, device=a.device))
    for k in reversed(range(scales.shape[-2])):
        v = ag.narrow(vectors, -1, k, 1)
        scale = ag.narrow(scales, -2, k, 1)
        product = ag.sub(product, ag.matmul(ag.mul(scale, v), ag.matmul(mt(v), product)))
    return product


def matrix_exp(A: Any) -> Any:
    """The exponential of matrices by Taylor's series of A / 2^s, squared s times (Higham, Functions
    of Matrices, section 10.3). The host waits for the norm, which tells s.

    >>> nc.linalg.matrix_exp(nc.zeros(2, 2)).numpy().round(4).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    (x,) = matrices("linalg.matrix_exp", A, square=True)
    if not x.size:
        return ag.clone(x)
    norm = float(ag.amax(ag.sum(ag.abs(x.detach()), -2)).item())
    squarings = max(0, math.ceil(math.log2(norm)) + 1) if 0 < norm < math.inf else 0
    x = ag.mul(x, 0.5**squarings)
    own = _eye(x, x.shape[-1])
    total = own
    for k in reversed(range(1, 19)):
        total = ag.add(own, ag.matmul(ag.mul(x, 1 / k), total))
    for _ in range(squarings):
        total = ag.matmul(total, total)
    return total


def _steps(niter: Any) -> int:
    count = 2 if niter is None else niter
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 1000:
        raise AttributeValueError(message("svd_lowrank", f"niter={niter!r}", "an int, 0 to 1000"))
    return count


def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """U, S and V of about the q largest singular values of A, or of A - M, by a random subspace
    (Halko, Martinsson, Tropp 2011, algorithm 5.1).

    For matrices (..., n, m) in float32 or float64.

    >>> U, S, V = ag.svd_lowrank(nc.diag(nc.tensor([3.0, 2.0, 1.0])), q=2)
    >>> U.shape, S.shape, V.shape
    ((3, 2), (2,), (3, 2))

    Args:
        niter: How often the subspace is improved.
    """
    (x,) = matrices("svd_lowrank", A)
    x = x if M is None else ag.sub(x, M)
    count = min(6 if q is None else q, *x.shape[-2:])
    space = nc.randn(*x.shape[:-2], x.shape[-1], count, dtype=x.dtype, device=x.device)
    basis = host.QR(ag.matmul(x, space), mode="reduced")[0]
    for _ in range(_steps(niter)):
        basis = host.QR(ag.matmul(mt(x), basis), mode="reduced")[0]
        basis = host.QR(ag.matmul(x, basis), mode="reduced")[0]
    u, s, vh = host.SVD(ag.matmul(mt(basis), x), full_matrices=False)
    return ag.matmul(basis, u), s, mt(vh)


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """U, S and V of about the q main axes of the rows of A: `svd_lowrank` without their mean.

    >>> U, S, V = ag.pca_lowrank(nc.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), q=1)
    >>> S.numpy().round(4)
    array([2.], dtype=float32)

    Args:
        center: Whether the columns' means are subtracted.
        niter: How often the subspace is improved.
    """
    (x,) = matrices("pca_lowrank", A)
    x = ag.sub(x, ag.mean(x, -2, True)) if center else x
    return svd_lowrank(x, min(6, *x.shape[-2:]) if q is None else q, niter)


OPERATORS: Final = (LU,)
