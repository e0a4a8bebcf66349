"""Rows that pick and write elements by tensors of indices: they stay on the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import Unfit, direct, row
from netcl_plugin_torch.making import overwrite
from netcl_plugin_torch.tensor import NetclTensor, to_device

#: The most elements of a table of pairs (source, target), for reductions that netcl has no op for.
_PAIRS = 1 << 24


def _places(x: Any, indices: Sequence[Any]) -> list[Any]:
    """Whole numbers for each indexed dimension, None for the others; masks become numbers."""
    tensors: list[Any] = []
    for index in indices:
        if index is None:
            tensors.append(None)
            continue
        if type(index) is not NetclTensor:
            index = to_device(index)
        if index.dtype in (torch.bool, torch.uint8):
            sizes = x.shape[len(tensors) : len(tensors) + index.dim()]
            if tuple(index.shape) != tuple(sizes):
                text = f"The shape of the mask {list(index.shape)} at index 0 does not match the"
                raise IndexError(f"{text} shape of the indexed tensor {list(x.shape)} at index 0")
            tensors += (
                index.nonzero().unbind(1) if index.dim() else [index.reshape(1).nonzero()[:, 0]]
            )
        else:
            tensors.append(index)
    if len(tensors) > x.dim():
        text = f"too many indices for tensor of dimension {x.dim()} (got {len(tensors)})"
        raise IndexError(text)
    return tensors


class _Picked:
    """An indexed tensor as rows: the indexed dimensions first, as one, and the others behind."""

    def __init__(self, x: Any, indices: Sequence[Any]) -> None:
        places = _places(x, indices)
        dims = [i for i, index in enumerate(places) if index is not None]
        given = torch.broadcast_tensors(*[places[i] for i in dims])
        self.shape = tuple(given[0].shape)
        self.order = dims + [i for i in range(x.dim()) if i not in dims]
        self.front = len(dims)
        adjacent = dims == list(range(dims[0], dims[-1] + 1))
        self.at = dims[0] if adjacent else 0
        moved = x.permute(self.order)
        self.sizes = tuple(moved.shape)
        self.rest = self.sizes[self.front :]
        self.rows = moved.reshape(math.prod(self.sizes[: self.front]), math.prod(self.rest))
        self.flat = self._numbers(given)

    def _numbers(self, given: Sequence[Any]) -> Any:
        """The number of the row that each index names."""
        total: Any = 0
        for index, size in zip(given, self.sizes, strict=False):
            raw = index.raw
            if raw.size and size:
                low, high = raw.value.int_range() if raw.dtype in ("int64", "int32") else (0, 0)
                if low < -size or high >= size:
                    wrong = low if low < -size else high
                    text = f"index {wrong} is out of bounds for dimension 0 with size {size}"
                    raise IndexError(text)
            total = total * size + torch.where(index < 0, index + size, index)
        return total.reshape(-1)

    def out(self, rows: Any) -> Any:
        """Picked rows in the shape of the result."""
        grid = rows.reshape(*self.shape, *self.rest)
        if not self.at:
            return grid
        count = len(self.shape)
        order = [*range(count, count + self.at), *range(count), *range(count + self.at, grid.dim())]
        return grid.permute(order).contiguous()

    def into(self, values: Any) -> Any:
        """Values in the shape of the result, as rows."""
        count = len(self.shape)
        whole = (*self.rest[: self.at], *self.shape, *self.rest[self.at :])
        values = values.expand(whole)
        if self.at:
            end = self.at + count
            values = values.permute(*range(self.at, end), *range(self.at), *range(end, len(whole)))
        return values.reshape(-1, math.prod(self.rest))

    def back(self, rows: Any) -> Any:
        """All rows in the shape of what was indexed."""
        inverse = sorted(range(len(self.order)), key=self.order.__getitem__)
        return rows.reshape(self.sizes).permute(inverse)


@direct("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Sequence[Any]) -> Any:
    if all(each is None for each in indices):
        return x.clone()
    picked = _Picked(x, indices)
    if picked.flat.numel() and not picked.rows.shape[0]:
        raise IndexError("index is out of bounds for dimension with size 0")
    if not picked.flat.numel() or not picked.rows.numel():
        rows = picked.rows.new_empty((picked.flat.numel(), picked.rows.shape[1]))
    else:
        rows = picked.rows.index_select(0, picked.flat)
    return picked.out(rows)


@direct("_index_put_impl_", "_unsafe_index_put_")
def index_put(x: Any, indices: Sequence[Any], values: Any, accumulate: bool = False,
              unsafe: bool = False) -> Any:  # fmt: skip
    if values.dtype != x.dtype:
        text = "Index put requires the source and destination dtypes match, got"
        raise RuntimeError(
            f"{text} {x.dtype} for the destination and {values.dtype} for the source."
        )
    if type(values) is not NetclTensor:
        values = to_device(values)
    if all(each is None for each in indices):
        return x.add_(values) if accumulate else x.copy_(values)
    picked = _Picked(x, indices)
    source = picked.into(values)
    if source.numel():
        change = picked.rows.index_add if accumulate else picked.rows.index_copy
        overwrite(x, picked.back(change(0, picked.flat, source)).raw)
    return x


@direct("masked_scatter_")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    if source.dtype != x.dtype:
        text = "masked_scatter_: expected self and source to have same dtypes but got"
        raise RuntimeError(f"{text} {x.dtype} and {source.dtype}")
    flat = mask.expand(x.shape).reshape(-1)
    if not flat.numel():
        return x
    place = flat.cumsum(0) - 1
    if int(place[-1]) >= source.numel():
        text = "masked_scatter: expected self and source to have same number of elements"
        raise RuntimeError(f"{text}: the mask has {int(place[-1]) + 1}, source {source.numel()}")
    if source.numel():
        picked = source.reshape(-1).index_select(0, place.clamp_min(0)).reshape(x.shape)
        overwrite(x, torch.where(flat.reshape(x.shape), picked, x).raw)
    return x


@row("scatter_reduce.two")
def scatter_reduce(x: Any, dim: int, index: Any, source: Any, reduce: str,
                   include_self: bool = True) -> Any:  # fmt: skip
    if x.ndim == 0:
        shaped = [ag.reshape(operand, (1,)) for operand in (x, index, source)]
        return ag.reshape(scatter_reduce(shaped[0], 0, *shaped[1:], reduce, include_self), ())
    if not index.size:
        return x
    sizes = tuple(slice(0, n) for n in index.shape)
    source = source[sizes]
    ones = nc.ones(index.shape, dtype="int32")
    hits = ag.scatter_add(nc.zeros(x.shape, dtype="int32"), dim, index, ones)
    kept = x if include_self else ag.where(ag.gt(hits, 0), _NEUTRAL[reduce](x), x)
    if reduce in ("sum", "mean"):
        total = ag.scatter_add(kept, dim, index, source)
        if reduce == "sum":
            return total
        count = ag.maximum(hits + (1 if include_self else 0), 1)
        whole = x.dtype in ("int64", "int32", "int16", "int8", "uint8")
        return ag.floor_divide(total, count) if whole else ag.div(total, count.astype(x.dtype))
    return _by_pairs(kept, dim % x.ndim, index, source, reduce)


def _limit(x: Any, most: bool) -> Any:
    dtype = getattr(torch, x.dtype)
    if dtype.is_floating_point:
        return math.inf if most else -math.inf
    info = torch.iinfo(dtype) if dtype != torch.bool else None
    return (info.max if most else info.min) if info else most


#: What a reduction starts with where it leaves the old element out.
_NEUTRAL: Final[dict[str, Callable[[Any], Any]]] = {
    "sum": lambda x: 0,
    "mean": lambda x: 0,
    "prod": lambda x: 1,
    "amax": lambda x: _limit(x, most=False),
    "amin": lambda x: _limit(x, most=True),
}


def _by_pairs(x: Any, dim: int, index: Any, source: Any, reduce: str) -> Any:
    """A reduction over the sources that name each element, by a table of all pairs."""
    count = x.shape[dim]
    if index.size * count > _PAIRS:
        raise Unfit(f"scatter_reduce {reduce} of {index.size} elements to {count} places")
    region = tuple(slice(0, n) if i != dim else slice(None) for i, n in enumerate(index.shape))
    numbers = nc.arange(count).reshape(count, *(1,) * index.ndim)
    pairs = ag.where(ag.eq(ag.unsqueeze(index, 0), numbers), ag.unsqueeze(source, 0),
                     _NEUTRAL[reduce](x))  # fmt: skip
    name = {"prod": ag.prod, "amax": ag.amax, "amin": ag.amin}[reduce]
    in_place = ag.movedim(name(pairs, dim + 1), 0, dim)
    both = {"prod": ag.mul, "amax": ag.maximum, "amin": ag.minimum}[reduce]
    copy = x.duplicate()
    part = copy[region]
    part.value.overwrite(both(part, in_place).value)
    return copy


@direct("_cdist_forward")
def cdist(a: Any, b: Any, p: float, mode: Any) -> Any:
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, -1)


@direct("_pdist_forward")
def pdist(x: Any, p: float = 2) -> Any:
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1).to(x.device).unbind(0)
    return torch.linalg.vector_norm(x[i] - x[j], p, -1)
