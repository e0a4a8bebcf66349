"""Solutions of linear equations, of matrices and of tensors as such."""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg import host
from netcl_plugin_linalg.factors import info, inv, matrix_rank, pinv, svdvals
from netcl_plugin_linalg.host import matrices, mt

_Lstsq = namedtuple("_Lstsq", ("solution", "residuals", "rank", "singular_values"))
_Solved = namedtuple("_Solved", ("result", "info"))


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
    return _Solved(solve(A, B, left=left), info(A))


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
    solution = ag.matmul(pinv(a, rtol=rcond), right)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        expected = "'gels', 'gelsy', 'gelsd' or 'gelss'"
        raise AttributeValueError(message("linalg.lstsq", f"driver={driver!r}", expected))
    rest = Tensor.empty((0,), a.dtype, a.device)
    s = svdvals(a) if driver in ("gelsd", "gelss") else rest
    rank = matrix_rank(a, rtol=rcond) if driver != "gels" else rest.astype("int64")
    if driver in (None, "gelsy") or a.shape[-2] <= a.shape[-1]:
        rest = ag.narrow(ag.reshape(a, (-1,)), 0, 0, 0)
    else:
        rest = ag.sum(ag.square(ag.sub(ag.matmul(a, solution), right)), -2)
    return _Lstsq(ag.squeeze(solution, -1) if vector else solution, rest, rank, s)


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
    solution = solve(ag.reshape(a, (b.size, -1)), ag.reshape(b, (-1,)))
    return ag.reshape(solution, a.shape[b.ndim :])
