"""nc.linalg: factorizations, solutions, inverses and norms of matrices, with gradients.

    >>> nc.linalg.solve(nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([1.0, 1.0])).tolist()
    [0.5, 0.25]

Names and arguments are PyTorch's. The host's LAPACK computes, by NumPy, in float32 or float64.
"""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg import host
from netcl_plugin_linalg.host import matrices, mt
from netcl_plugin_linalg.triangular import (
    householder_product as householder_product,
)
from netcl_plugin_linalg.triangular import lu as lu
from netcl_plugin_linalg.triangular import lu_factor as lu_factor
from netcl_plugin_linalg.triangular import lu_factor_ex as lu_factor_ex
from netcl_plugin_linalg.triangular import lu_solve as lu_solve
from netcl_plugin_linalg.triangular import matrix_exp as matrix_exp

_QR = namedtuple("_QR", ("Q", "R"))
_Eigh = namedtuple("_Eigh", ("eigenvalues", "eigenvectors"))
_SVD = namedtuple("_SVD", ("U", "S", "Vh"))
_Slogdet = namedtuple("_Slogdet", ("sign", "logabsdet"))
_Lstsq = namedtuple("_Lstsq", ("solution", "residuals", "rank", "singular_values"))
_Cholesky = namedtuple("_Cholesky", ("L", "info"))
_Inverse = namedtuple("_Inverse", ("inverse", "info"))
_Solved = namedtuple("_Solved", ("result", "info"))


def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The triangle L with L L^T = A, or its transpose; raises AttributeValueError for others.

    >>> nc.linalg.cholesky(nc.tensor([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    lower = host.CHOLESKY(*matrices("linalg.cholesky", A, square=True))
    return mt(lower) if upper else lower


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """A named tuple of `cholesky` and `info`, which is 0: what has none is an error at once.

    >>> factor, info = nc.linalg.cholesky_ex(nc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> factor.tolist(), info.item()
    ([[2.0, 0.0], [1.0, 2.0]], 0)
    """
    return _Cholesky(cholesky(A, upper=upper), _info(A))


def _info(A: Any) -> Any:
    x = ag.as_operand(A)
    return Tensor.zeros(x.shape[:-2], "int32", x.device)


def qr(A: Any, mode: str = "reduced") -> Any:
    """A named tuple of `Q` and `R` with Q R = A; mode `'reduced'`, `'complete'` or `'r'`.

    >>> q, r = nc.linalg.qr(nc.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> (q @ r).numpy().round(4).tolist()
    [[4.0, 2.0], [2.0, 5.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        expected = "'reduced', 'complete' or 'r'"
        raise AttributeValueError(message("linalg.qr", f"mode={mode!r}", expected))
    (x,) = matrices("linalg.qr", A)
    if mode == "r":
        return _QR(Tensor.empty((0,), x.dtype, x.device), host.QR(x, mode="reduced")[1])
    return _QR(*host.QR(x, mode=mode))


def eigh(A: Any, UPLO: str = "L") -> Any:
    """A named tuple of `eigenvalues`, the least first, and `eigenvectors` of symmetric A.

    >>> values, vectors = nc.linalg.eigh(nc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> values.tolist()
    [2.0, 4.0]
    """
    (x,) = matrices("linalg.eigh", A, square=True)
    if UPLO not in ("L", "U"):
        raise AttributeValueError(message("linalg.eigh", f"UPLO={UPLO!r}", "'L' or 'U'"))
    return _Eigh(*host.EIGH(mt(x) if UPLO == "U" else x))


def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, the least first.

    >>> nc.linalg.eigvalsh(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [2.0, 4.0]
    """
    return eigh(A, UPLO).eigenvalues


def svd(A: Any, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """A named tuple of `U`, `S` and `Vh` with U diag(S) Vh = A.

    >>> u, s, vh = nc.linalg.svd(nc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> s.numpy().round(4).tolist()
    [4.0, 2.0]
    """
    (x,) = matrices("linalg.svd", A)
    return _SVD(*host.SVD(x, full_matrices=bool(full_matrices)))


def svdvals(A: Any, *, driver: Any = None) -> Any:
    """The singular values, the largest first.

    >>> nc.linalg.svdvals(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).numpy().round(4).tolist()
    [4.0, 2.0]
    """
    return svd(A, False).S


def inv(A: Any) -> Any:
    """The inverse; raises AttributeValueError for singular matrices.

    >>> nc.linalg.inv(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return host.INV(*matrices("linalg.inv", A, square=True))


def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """A named tuple of `inverse` and `info`, which is 0.

    >>> inverse, info = nc.linalg.inv_ex(nc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> inverse.tolist(), info.item()
    ([[0.5, 0.0], [0.0, 0.25]], 0)
    """
    return _Inverse(inv(A), _info(A))


def _is_vector(A: Any, B: Any) -> bool:
    return bool(B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1]))


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Both with the leading dimensions that they have together."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return ag.expand(a, (*lead, *a.shape[-2:])), ag.expand(b, (*lead, *b.shape[-2:]))


def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with A X = B, or X A = B if not `left`; B is matrices, or vectors, one for each A.

    >>> nc.linalg.solve(nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    a, b = matrices("linalg.solve", A, B, square=True)
    if _is_vector(a, b):
        wide = ag.unsqueeze(b, -1)
        if not left:
            raise ShapeError(message("linalg.solve", "vectors on the left", "matrices"))
        return ag.squeeze(host.SOLVE(*_aligned(a, wide)), -1)
    if not left:
        return mt(host.SOLVE(*_aligned(mt(a), mt(b))))
    return host.SOLVE(*_aligned(a, b))


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """A named tuple of `result`, as of `solve`, and `info`, which is 0.

    >>> x, info = nc.linalg.solve_ex(nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([2.0, 2.0]))
    >>> x.tolist()
    [1.0, 0.5]
    """
    return _Solved(solve(A, B, left=left), _info(A))


def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True,
                     unitriangular: bool = False) -> Any:  # fmt: skip
    """X with A X = B, or X A = B if not `left`, where only a triangle of A is read.

    >>> a, b = nc.tensor([[2.0, 0.0], [0.0, 4.0]]), nc.tensor([[2.0], [2.0]])
    >>> nc.linalg.solve_triangular(a, b, upper=True).tolist()
    [[1.0], [0.5]]
    """
    a, b = matrices("linalg.solve_triangular", A, B, square=True)
    half = ag.triu(a, 1 if unitriangular else 0) if upper else ag.tril(a, -int(unitriangular))
    if unitriangular:
        half = ag.add(half, nc.eye(a.shape[-1], dtype=a.dtype, device=a.device))
    return solve(half, b, left=left)


def det(A: Any) -> Any:
    """The determinant, whose gradient is right of singular matrices too.

    >>> round(nc.linalg.det(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).item(), 4)
    8.0
    """
    return host.DET(*matrices("linalg.det", A, square=True))


def slogdet(A: Any) -> Any:
    """A named tuple of the `sign` of the determinant and the logarithm of its absolute value.

    >>> sign, logarithm = nc.linalg.slogdet(nc.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> sign.item(), round(logarithm.item(), 4)
    (1.0, 2.0794)
    """
    return _Slogdet(*host.SLOGDET(*matrices("linalg.slogdet", A, square=True)))


def _kept(s: Any, shape: Sequence[int], atol: Any, rtol: Any) -> Any:
    """Which singular values are more than what rounding makes of 0."""
    wide = max(*shape, 1)
    if rtol is None:
        given = atol is not None and not (isinstance(atol, (int, float)) and atol == 0)
        rtol = 0.0 if given else wide * float(np.finfo(s.dtype).eps)
    largest = ag.amax(s, -1, True) if s.shape[-1] else s

    def spread(limit: Any) -> Any:
        x = ag.as_operand(limit, s.device).astype(s.dtype)
        return ag.unsqueeze(x, -1) if x.ndim else x

    bound = ag.maximum(ag.mul(largest, spread(rtol)), spread(0.0 if atol is None else atol))
    return ag.gt(s, bound)


def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None,
         rtol: Any = None) -> Any:  # fmt: skip
    """The pseudoinverse (Moore, Penrose) by singular values above max(atol, rtol * largest).

    >>> nc.linalg.pinv(nc.tensor([[2.0], [0.0]])).numpy().round(4).tolist()
    [[0.5, 0.0]]
    """
    (x,) = matrices("linalg.pinv", A)
    if not x.size:
        return mt(x)
    x = _symmetric(x) if hermitian else x
    with ag.no_grad():
        u, s, vh = svd(x, False)
        kept = _kept(s, x.shape[-2:], atol, rcond if rtol is None else rtol)
        scale = ag.where(kept, ag.div(1.0, ag.where(kept, s, 1.0)), 0.0)
        found = ag.matmul(ag.mul(mt(vh), ag.unsqueeze(scale, -2)), mt(u))
    return host.PINV(x, found)


def _symmetric(x: Any) -> Any:
    """The matrices that the lower triangles are of; their gradient is symmetric too."""
    part = ag.mul(ag.add(x, mt(x)), 0.5)
    read = ag.add(ag.tril(x.detach()), mt(ag.tril(x.detach(), -1)))
    return ag.add(part, ag.sub(read, part.detach()))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None,
                rtol: Any = None) -> Any:  # fmt: skip
    """How many singular values are above max(atol, rtol * largest): int64.

    >>> nc.linalg.matrix_rank(nc.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    (x,) = matrices("linalg.matrix_rank", A)
    if not x.size:
        return Tensor.zeros(x.shape[:-2], "int64", x.device)
    s = svdvals(_symmetric(x) if hermitian else x)
    if tol is not None:
        atol, rtol = tol, 0.0
    return ag.sum(_kept(s, x.shape[-2:], atol, rtol), -1)


def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: Any = None) -> Any:
    """A named tuple of the `solution` X of least squares |A X - B|, by `pinv`, and what follows it.

    As in PyTorch the `driver` decides what else there is: `singular_values` of 'gelsd' and 'gelss',
    `rank` of all but 'gels'.

    `residuals` are empty unless there are more rows than columns, and of 'gelsy', the default.

    >>> x, y = nc.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), nc.tensor([[1.0], [3.0], [5.0]])
    >>> nc.linalg.lstsq(x, y).solution.numpy().round(4).tolist()
    [[1.0], [2.0]]
    """
    a, b = matrices("linalg.lstsq", A, B)
    vector = _is_vector(a, b)
    right = ag.unsqueeze(b, -1) if vector else b
    found = ag.matmul(pinv(a, rtol=rcond), right)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        expected = "'gels', 'gelsy', 'gelsd' or 'gelss'"
        raise AttributeValueError(message("linalg.lstsq", f"driver={driver!r}", expected))
    rest = Tensor.empty((0,), a.dtype, a.device)
    s = svdvals(a) if driver in ("gelsd", "gelss") else rest
    rank = matrix_rank(a, rtol=rcond) if driver != "gels" else rest.astype("int64")
    if driver in (None, "gelsy") or a.shape[-2] <= a.shape[-1]:
        rest = ag.narrow(ag.reshape(a, (-1,)), 0, 0, 0)
    else:
        rest = ag.sum(ag.square(ag.sub(ag.matmul(a, found), right)), -2)
    return _Lstsq(ag.squeeze(found, -1) if vector else found, rest, rank, s)


def matrix_power(A: Any, n: int) -> Any:
    """A multiplied n times with itself, by squaring; n < 0: of the inverse.

    >>> nc.linalg.matrix_power(nc.tensor([[1.0, 1.0], [0.0, 1.0]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    (x,) = matrices("linalg.matrix_power", A, square=True)
    if isinstance(n, bool) or not isinstance(n, int):
        raise AttributeValueError(message("linalg.matrix_power", f"n={n!r}", "an int"))
    base, count = (inv(x) if n < 0 else x), abs(n)
    found = ag.expand(nc.eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    while count:
        found = ag.matmul(found, base) if count % 2 else found
        count //= 2
        base = ag.matmul(base, base) if count else base
    return ag.add(found, ag.mul(x, 0.0)) if n == 0 else found


def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of matrices in a row, in the order that takes the fewest multiplications.

    >>> nc.linalg.multi_dot([nc.rand(2, 3), nc.rand(3, 4), nc.rand(4, 5)]).shape
    (2, 5)
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

    found = product(0, count - 1)
    shape = (*[sizes[0]] * (not first), *[sizes[-1]] * (not last))
    return ag.reshape(found, shape)


# -- norms -------------------------------------------------------------------------------


def vector_norm(x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *,
                dtype: Any = None) -> Any:  # fmt: skip
    """The p-norm of vectors along axes: `norm` of numbers.

    >>> round(nc.linalg.vector_norm(nc.tensor([3.0, 4.0])).item(), 4)
    5.0
    """
    return ag.norm(x, ord, dim, keepdim, dtype)


def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *,
                dtype: Any = None) -> Any:  # fmt: skip
    """The norm of matrices: `'fro'`, `'nuc'`, or the operator norm of 1, -1, 2, -2, inf or -inf.

    >>> round(nc.linalg.matrix_norm(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).item(), 4)
    4.4721
    """
    x = ag.as_operand(A)
    x = x if dtype is None else x.astype(nc.dtype_name(dtype))
    if x.ndim < 2 or len(dim) != 2 or dim[0] % x.ndim == dim[1] % x.ndim:
        raise ShapeError(message("linalg.matrix_norm", f"{x.shape}, dim={dim!r}", "two axes"))
    if ord == "fro":
        return ag.norm(x, 2, tuple(dim), keepdim)
    rows, columns = (each % x.ndim for each in dim)
    if ord in ("nuc", 2, -2):
        s = svdvals(ag.movedim(x, (rows, columns), (-2, -1)))
        found = ag.sum(s, -1) if ord == "nuc" else ag.amax(s, -1) if ord == 2 else ag.amin(s, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        over, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = ag.sum(ag.abs(x), over)
        rest -= over < rest
        found = ag.amax(sums, rest) if ord > 0 else ag.amin(sums, rest)
    else:
        expected = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise AttributeValueError(message("linalg.matrix_norm", f"ord={ord!r}", expected))
    if keepdim:
        for place in sorted((rows, columns)):
            found = ag.unsqueeze(found, place)
    return found


def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *,
         dtype: Any = None) -> Any:  # fmt: skip
    """`matrix_norm` of two axes, else `vector_norm`; without `ord` the root of the squares.

    >>> round(nc.linalg.norm(nc.tensor([3.0, 4.0])).item(), 4)
    5.0
    """
    x = ag.as_operand(A)
    pair = dim is not None and not isinstance(dim, int) and len(dim) == 2
    if ord is not None and (pair or (dim is None and x.ndim == 2)):
        return matrix_norm(x, ord, dim if pair else (0, 1), keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise AttributeValueError(message("linalg.norm", f"ord={ord!r}", "two axes"))
    return ag.norm(x, 2 if ord is None else ord, dim, keepdim, dtype)


def cond(A: Any, p: Any = None) -> Any:
    """The condition number: the norm of A times that of its inverse, by default of order 2.

    >>> round(nc.linalg.cond(nc.tensor([[2.0, 0.0], [0.0, 4.0]])).item(), 4)
    2.0
    """
    (x,) = matrices("linalg.cond", A)
    if p in (None, 2, -2):
        s = svdvals(x)
        most, least = ag.amax(s, -1), ag.amin(s, -1)
        return ag.div(least, most) if p == -2 else ag.div(most, least)
    return ag.mul(matrix_norm(x, p), matrix_norm(inv(x), p))


# -- of vectors and of tensors -----------------------------------------------------------


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
    """
    return ag.diagonal(A, offset, dim1, dim2)


def vander(x: Any, N: int | None = None) -> Any:
    """The powers 0 to N - 1 of each element, in a new last dimension; N is the last size.

    >>> nc.linalg.vander(nc.tensor([1.0, 2.0, 3.0]), N=3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 4.0], [1.0, 3.0, 9.0]]
    """
    given = ag.atleast_1d(ag.as_operand(x))
    count = given.shape[-1] if N is None else N
    powers = [ag.full_like(given, 1)]
    for _ in range(count - 1):
        powers.append(ag.mul(powers[-1], given))
    return ag.stack(powers[:count], -1)


def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of A as a map from its dimensions after `ind` to those before.

    >>> nc.linalg.tensorinv(nc.eye(4).reshape(2, 2, 4), ind=2).shape
    (4, 2, 2)
    """
    x = ag.as_operand(A)
    rows = math.prod(x.shape[:ind])
    return ag.reshape(inv(ag.reshape(x, (rows, -1))), (*x.shape[ind:], *x.shape[:ind]))


def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """X with tensordot(A, X, X.ndim) = B.

    >>> nc.linalg.tensorsolve(nc.eye(4).reshape(2, 2, 4), nc.ones(2, 2)).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    a, b = (ag.as_operand(x) for x in (A, B))
    if dims is not None:
        a = ag.movedim(a, tuple(dims), tuple(range(a.ndim - len(dims), a.ndim)))
    found = solve(ag.reshape(a, (b.size, -1)), ag.reshape(b, (-1,)))
    return ag.reshape(found, a.shape[b.ndim :])
