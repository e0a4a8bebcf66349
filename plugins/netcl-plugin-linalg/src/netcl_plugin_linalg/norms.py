"""Norms of vectors and matrices, and condition numbers."""

# ruff: noqa: N803 - PyTorch's names of arguments

from __future__ import annotations

import math
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg.factors import inv, svdvals
from netcl_plugin_linalg.host import matrices


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
    rows, columns = (axis % x.ndim for axis in dim)
    if ord in ("nuc", 2, -2):
        s = svdvals(ag.movedim(x, (rows, columns), (-2, -1)))
        norm = ag.sum(s, -1) if ord == "nuc" else ag.amax(s, -1) if ord == 2 else ag.amin(s, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        over, rest = (rows, columns) if abs(ord) == 1 else (columns, rows)
        sums = ag.sum(ag.abs(x), over)
        rest -= over < rest
        norm = ag.amax(sums, rest) if ord > 0 else ag.amin(sums, rest)
    else:
        expected = "'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        raise AttributeValueError(message("linalg.matrix_norm", f"ord={ord!r}", expected))
    if keepdim:
        for place in sorted((rows, columns)):
            norm = ag.unsqueeze(norm, place)
    return norm


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
