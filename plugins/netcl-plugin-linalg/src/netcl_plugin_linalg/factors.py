"""Factorizations of matrices, and what follows from one: inverses, determinants, ranks."""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_linalg import host
from netcl_plugin_linalg.host import matrices, mt

_QR = namedtuple("_QR", ("Q", "R"))
_Eigh = namedtuple("_Eigh", ("eigenvalues", "eigenvectors"))
_SVD = namedtuple("_SVD", ("U", "S", "Vh"))
_Slogdet = namedtuple("_Slogdet", ("sign", "logabsdet"))
_Cholesky = namedtuple("_Cholesky", ("L", "info"))
_Inverse = namedtuple("_Inverse", ("inverse", "info"))


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
    return _Cholesky(cholesky(A, upper=upper), info(A))


def info(A: Any) -> Any:
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
    return host.SVDVALS(*matrices("linalg.svdvals", A))


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
    return _Inverse(inv(A), info(A))


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
        inverse = ag.matmul(ag.mul(mt(vh), ag.unsqueeze(scale, -2)), mt(u))
    return host.PINV(x, inverse)


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
