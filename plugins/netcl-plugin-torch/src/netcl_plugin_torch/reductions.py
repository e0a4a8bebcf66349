"""Rows of reductions, and of what picks and joins elements."""

from __future__ import annotations

import math
from typing import Any

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import ROWS, row
from netcl_plugin_torch.tensor import name_of

# -- reductions --------------------------------------------------------------------------------


def _dims(dim: Any) -> Any:
    """PyTorch's dimensions; no dimension means all of them."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def _dtype(dtype: Any) -> str | None:
    return None if dtype is None else name_of(dtype)


@row("sum", "sum.dim_IntList")
def sum_(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if dtype is None and not nc.DTYPES[x.dtype].floating:
        dtype = torch.int64
    return ag.sum(x, _dims(dim), keepdim, dtype=_dtype(dtype))


@row("mean", "mean.dim")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return ag.mean(x, _dims(dim), keepdim, dtype=_dtype(dtype))


def _reduction(name: str, function: Any) -> None:
    def run(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return function(x, _dims(dim), keepdim)

    ROWS[name] = run


for _name in ("amax", "amin", "logsumexp", "any.dim", "all.dim", "any.dims", "all.dims", "any",
              "all", "max.dim", "min.dim", "max", "min", "argmax", "argmin"):  # fmt: skip
    _reduction(_name, getattr(ag, _name.partition(".")[0]))


@row("prod", "prod.dim_int")
def prod(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if isinstance(dim, torch.dtype):
        dim, dtype = None, dim
    if dtype is None and not nc.DTYPES[x.dtype].floating:
        dtype = torch.int64
    return ag.prod(x, dim, keepdim, dtype=_dtype(dtype))


@row("var.correction")
def var(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return ag.var(x, _dims(dim), 1 if correction is None else correction, keepdim)


@row("std.correction")
def std(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return ag.std(x, _dims(dim), 1 if correction is None else correction, keepdim)


@row("var_mean.correction")
def var_mean(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return var(x, dim, correction, keepdim), ag.mean(x, _dims(dim), keepdim)


@row("cumsum")
def cumsum(x: Any, dim: int, dtype: Any = None) -> Any:
    if dtype is None and not nc.DTYPES[x.dtype].floating:
        dtype = torch.int64
    return x if x.ndim == 0 else ag.cumsum(x, dim, dtype=_dtype(dtype))


@row("linalg_vector_norm")
def vector_norm(
    x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    x = x.astype(nc.DTYPES[x.dtype if dtype is None else name_of(dtype)].wide)
    if p == 2:
        return ag.sqrt(ag.sum(ag.mul(x, x), _dims(dim), keepdim))
    if p == 1:
        return ag.sum(ag.abs(x), _dims(dim), keepdim)
    if p == 0:
        return ag.sum(ag.ne(x, 0).astype(x.dtype), _dims(dim), keepdim)
    if abs(p) == math.inf:
        return (ag.amax if p > 0 else ag.amin)(ag.abs(x), _dims(dim), keepdim)
    return ag.pow(ag.sum(ag.pow(ag.abs(x), p), _dims(dim), keepdim), 1 / p)


@row("sort", "sort.stable")
def sort(x: Any, dim: Any = -1, descending: bool = False, *, stable: Any = None) -> Any:
    if x.ndim == 0:
        return x, nc.zeros((), dtype="int64")
    return tuple(ag.sort(x, dim, descending, stable=True))


@row("topk")
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return x, nc.zeros((), dtype="int64")
    return tuple(ag.topk(x, k, dim, largest, sorted))


# -- picking and joining -------------------------------------------------------------------------


@row("cat")
def cat(tensors: Any, dim: int = 0) -> Any:
    kept = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    dtypes = {x.dtype for x in tensors}
    if len(dtypes) > 1:
        wide = nc.promote(dtypes)
        kept = [x.astype(wide) for x in kept]
    return kept[0].duplicate() if len(kept) == 1 else ag.cat(kept, dim)


@row("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    return ag.stack(tensors, dim)


def _line(x: Any) -> Any:
    """A tensor without dimensions as one of one element."""
    return ag.reshape(x, (1,)) if x.ndim == 0 else x


@row("index_select")
def index_select(x: Any, dim: int, index: Any) -> Any:
    picked = ag.index_select(_line(x), dim, _line(index))
    return ag.reshape(picked, ()) if x.ndim == 0 and picked.size == 1 else picked


@row("gather")
def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if x.ndim == 0 or index.ndim == 0:
        return ag.reshape(ag.gather(_line(x), 0, _line(index)), index.shape)
    return ag.gather(x, dim, index)


@row("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return ag.scatter_add(x, dim, index, source)


@row("scatter.src", "scatter.value")
def scatter(x: Any, dim: int, index: Any, source: Any) -> Any:
    return ag.scatter(x, dim, index, source)


@row("index_add")
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return ag.index_add(x, dim, index, source, alpha=alpha)


@row("index_copy")
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    return ag.index_copy(x, dim, index, source)


@row("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    return ag.index_fill(x, dim, index, value.item() if isinstance(value, nc.Tensor) else value)


@row("flip")
def flip(x: Any, dims: Any) -> Any:
    return ag.flip(x, tuple(dims))


@row("roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    return ag.roll(x, tuple(shifts), tuple(dims) or None)


@row("tril")
def tril(x: Any, diagonal: int = 0) -> Any:
    return ag.tril(x, diagonal)


@row("triu")
def triu(x: Any, diagonal: int = 0) -> Any:
    return ag.triu(x, diagonal)


@row("repeat")
def repeat(x: Any, sizes: Any) -> Any:
    return ag.repeat(x, *sizes) if sizes else x


@row("constant_pad_nd")
def constant_pad_nd(x: Any, pad: Any, value: Any = 0) -> Any:
    return ag.pad(x, tuple(pad), value=value)


@row("nonzero")
def nonzero(x: Any) -> Any:
    return ag.nonzero(x)


@row("masked_select")
def masked_select(x: Any, mask: Any) -> Any:
    return ag.masked_select(x, mask)


@row("_unique2")
def unique2(x: Any, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    return tuple(ag.unique(x, True, True, True))
