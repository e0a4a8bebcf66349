"""What comes together at one place: sums, products, means and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_plugin_tensor.axes import axis, one_of
from netcl_plugin_tensor.picking import everywhere
from netcl_plugin_tensor.selecting import ADD_AT_INDEX, GATHER

_JOINS: Final[dict[str, Any]] = {"prod": "mul", "amax": "maximum", "amin": "minimum"}


def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *,
                   include_self: bool = True) -> Any:  # fmt: skip
    """`input` with what elements of `src` at one place come to: a sum, product, mean or extreme.

    >>> x, i = nc.zeros(2), nc.tensor([0, 1, 0])
    >>> x.scatter_reduce(0, i, nc.tensor([1.0, 2.0, 5.0]), "amax").tolist()
    [5.0, 2.0]

    Args:
        input: A tensor.
        dim: The axis.
        index: As of `scatter`.
        src: A tensor of the input's dtype.
        reduce: `'sum'`, `'prod'`, `'mean'`, `'amax'` or `'amin'`.
        include_self: Whether the input's own element counts where something is put.

    Products and extremes come of a sort by index and a running product of each run.
    """
    one_of("scatter_reduce", "reduce", reduce, ("sum", "prod", "mean", "amax", "amin"))
    x = ag.as_operand(input)
    places, values = ag.as_operand(index, x.device), ag.as_operand(src, x.device)
    if not places.size:
        return ag.clone(x)
    if not x.ndim:
        parts = [ag.reshape(operand, (1,)) for operand in (x, places, values)]
        reduced = ag.scatter_reduce(parts[0], 0, *parts[1:], reduce, include_self=include_self)
        return ag.reshape(reduced, ())
    if values.shape != places.shape:
        values = ag.getitem(values, tuple([slice(size) for size in places.shape]))
    place = axis("scatter_reduce", dim, x.ndim)
    if x.dtype == "bool":
        whole_numbers = [operand.astype("int64") for operand in (x, values)]
        reduced = ag.scatter_reduce(whole_numbers[0], dim, places, whole_numbers[1], reduce,
                                  include_self=include_self)  # fmt: skip
        return ag.ne(reduced, 0)
    start = x if include_self else ag.scatter(x, place, places, value=_NEUTRAL[reduce](x.dtype))
    if reduce == "sum":
        return ag.scatter_add(start, place, places, values)
    if reduce == "mean":
        total = ag.scatter_add(start, place, places, values)
        own = Tensor.full(x.shape, 1, "int64", x.device)
        own = own if include_self else ag.scatter(own, place, places, value=0)
        ones = Tensor.full(places.shape, 1, "int64", x.device)
        count = ag.clamp(ag.scatter_add(own, place, places, ones), 1)
        if not DTYPES[x.dtype].floating:
            return ag.floor_divide(total, count.astype(x.dtype))
        return ag.div(total, count.astype(x.dtype))
    order = ag.argsort(places, place, stable=True)
    where, parts = GATHER(places, place, order), GATHER(values, place, order)
    join = getattr(ag, _JOINS[reduce])
    if reduce == "prod":
        return join(start, _last_of_runs(start, place, where, parts, join, 1))
    with ag.no_grad():
        runs = _last_of_runs(start, place, where, parts, join, _NEUTRAL[reduce](x.dtype))
        reduced = join(start, runs)
    if not DTYPES[x.dtype].floating or not ag.is_grad_enabled():
        return reduced
    return _shared_extreme(reduced, start, values, place, places)


def _last_of_runs(start: Any, place: int, where: Any, parts: Any, join: Any, neutral: Any) -> Any:
    """The running result at the end of each run of equal indices, put where the index says."""
    size, step = parts.shape[place], 1
    while step < size:
        rest = size - step
        same = ag.eq(ag.narrow(where, place, step, rest), ag.narrow(where, place, 0, rest))
        later, old = ag.narrow(parts, place, step, rest), ag.narrow(parts, place, 0, rest)
        joined = ag.where(same, join(later, old), later)
        parts = ag.cat([ag.narrow(parts, place, 0, step), joined], place)
        step *= 2
    ends = ag.ne(ag.narrow(where, place, 1, size - 1), ag.narrow(where, place, 0, size - 1))
    final = ag.full_like(ag.narrow(where, place, 0, 1), 1).astype("bool")
    last = ag.cat([ends, final], place)
    ones = last.astype("int64")
    total, hits = (ADD_AT_INDEX(operand, where, place, "found", False, False, start.shape)
                   for operand in (ag.where(last, parts, 0), ones))  # fmt: skip
    return ag.where(ag.gt(hits, 0), total, neutral)


def _zero(dtype: str) -> Any:
    return False if dtype == "bool" else 0


def _shared_extreme(result: Any, start: Any, values: Any, place: int, places: Any) -> Any:
    """The extreme as the mean of those that equal it, which share its gradient."""
    own = ag.eq(start.detach(), result)
    hits = ag.eq(values.detach(), ag.gather(result, place, places))
    zero = 0.0
    count = ag.scatter_add(own.astype(result.dtype), place, places, hits.astype(result.dtype))
    inside = [ag.where(own, start, zero), ag.where(hits, values, zero)]
    mean = ag.div(ag.scatter_add(inside[0], place, places, inside[1]), count)
    change = ag.sub(mean, mean.detach())
    return ag.add(result, ag.where(ag.isfinite(change.detach()), change, zero))


def _bound(dtype: str, high: bool) -> Any:
    if DTYPES[dtype].floating:
        return float("inf") if high else float("-inf")
    if dtype == "bool":
        return high
    limits = np.iinfo(dtype)
    return int(limits.max if high else limits.min)


_NEUTRAL: Final[dict[str, Callable[[str], Any]]] = {
    "sum": _zero,
    "mean": _zero,
    "prod": lambda dtype: True if dtype == "bool" else 1,
    "amax": lambda dtype: _bound(dtype, False),
    "amin": lambda dtype: _bound(dtype, True),
}


def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *,
                 include_self: bool = True) -> Any:  # fmt: skip
    """`input` with what slices of `source` at one place of a dimension come to: `scatter_reduce`.

    >>> index, source = nc.tensor([0, 0, 2]), nc.tensor([2.0, 3.0, 4.0])
    >>> ag.index_reduce(nc.ones(3), 0, index, source, "prod").tolist()
    [6.0, 1.0, 4.0]

    Args:
        input: A tensor.
        dim: The dimension.
        index: int64, one place for each slice of `source`.
        source: Of the input's shape, except in `dim`.
        reduce: `'prod'`, `'mean'`, `'amax'` or `'amin'`.
        include_self: Whether the input's own element counts where something is put.
    """
    one_of("index_reduce", "reduce", reduce, ("prod", "mean", "amax", "amin"))
    x = ag.as_operand(input)
    values = ag.as_operand(source, x.device)
    places = everywhere(index, values, dim)
    return ag.scatter_reduce(x, dim, places, values, reduce, include_self=include_self)


OPERATORS: Final = (
    composite(scatter_reduce, ("input", "index", "src")),
    composite(index_reduce, ("input", "index", "source")),
)
