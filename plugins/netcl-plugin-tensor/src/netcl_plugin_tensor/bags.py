"""embedding_bag: sums, means and maxima of the rows that each bag of indices names."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    ShapeError,
    message,
)
from netcl_plugin_tensor.axes import axis

_WHO = "embedding_bag"


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of the rows of `weight` that each bag of indices names.

    >>> table = nc.tensor(np.eye(3, dtype=np.float32))
    >>> ag.embedding_bag(nc.tensor([0, 2, 2]), table, nc.tensor([0, 1]), mode="sum").tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]

    Args:
        input: Integers: (bags, size), or all bags one after the other, (indices,).
        weight: The rows, (count, features).
        offsets: Where each bag of the latter begins. They are read by the host.
        max_norm: Rows that are named and longer are scaled to this length first, in place.
        norm_type: The p of that length.
        scale_grad_by_freq: Whether gradients of rows are divided by how often the row is named.
        mode: 'sum', 'mean' or 'max'; a bag without rows gives zeros.
        sparse: Has no effect: gradients are dense.
        per_sample_weights: A factor for each index, with mode 'sum'.
        include_last_offset: Whether `offsets` ends with the number of indices.
        padding_idx: A row that counts in no bag and gets no gradient.

    Returns (bags, features). Raises AttributeValueError for an index out of range.
    """
    if not isinstance(weight, Tensor) or weight.ndim != 2:
        given = f"weight of shape {getattr(weight, 'shape', type(weight).__name__)}"
        raise ShapeError(message(_WHO, given, "a tensor (count, features)"))
    if mode not in ("sum", "mean", "max"):
        raise AttributeValueError(message(_WHO, f"mode={mode!r}", "'sum', 'mean' or 'max'"))
    if scale_grad_by_freq and mode == "max":
        given = "scale_grad_by_freq with mode='max'"
        raise AttributeValueError(message(_WHO, given, "mode='sum' or 'mean'"))
    index = ag.as_operand(input, weight.device)
    factors, there = _factors(index, per_sample_weights, mode), None
    if index.ndim != (2 if offsets is None else 1):
        given = f"input of shape {index.shape} with{'out' if offsets is None else ''} offsets"
        expected = "(bags, size) without offsets, or (indices,) with them"
        raise ShapeError(message(_WHO, given, expected))
    if max_norm is not None:
        renormalized(weight, index, max_norm, norm_type)
    if isinstance(offsets, Tensor) and offsets.device is not index.device:
        given = f"offsets on {offsets.device.name} and input on {index.device.name}"
        raise DeviceError(message(_WHO, given, "one device", "Use offsets.to(device)"))
    if offsets is not None:
        places, there = _padded(index.shape[0], offsets, include_last_offset)
        index = _taken(index, places)
        factors = None if factors is None else _taken(factors, places)
    rows = ag.embedding(index, weight, padding_idx)
    if not index.size:
        return ag.sum(rows, 1)
    if scale_grad_by_freq:
        rows = by_frequency(rows, index, there, weight.shape[0])
    counts = _counts(index, there, padding_idx, weight.shape[0])
    if factors is not None:
        rows = ag.mul(rows, ag.unsqueeze(factors, -1))
    return _reduced(rows, counts, mode)


def renormalized(weight: Any, index: Any, max_norm: Any, norm_type: Any) -> None:
    """Scale the rows that are named and longer than `max_norm` to that length, in place."""
    if not index.size:
        return
    with ag.no_grad():
        table = weight.detach()
        lengths = ag.norm(table, float(norm_type), 1, True)
        names = ag.reshape(index, (-1,)).astype("int64")
        named = ag.scatter(
            Tensor.zeros((weight.shape[0],), "bool", weight.device), 0, names, value=True
        )
        long = ag.logical_and(ag.unsqueeze(named, 1), ag.gt(lengths, float(max_norm)))
        scale = ag.where(long, ag.div(float(max_norm), ag.add(lengths, 1e-7)), 1.0)
        weight.copy_(ag.mul(table, scale.astype(table.dtype)))


def by_frequency(rows: Any, index: Any, there: Any, count: int) -> Any:
    """The rows as they are, each with its gradient over how often its index comes."""
    names = ag.reshape(index, (-1,)).astype("int64")
    one = Tensor.ones(names.shape, rows.dtype, rows.device)
    if there is not None:
        one = ag.mul(one, Tensor.from_host(there.reshape(-1).astype("float32"), rows.device))
    often = ag.scatter_add(Tensor.zeros((count,), rows.dtype, rows.device), 0, names, one)
    share = ag.div(1.0, ag.clamp(ag.reshape(ag.gather(often, 0, names), (*index.shape, 1)), min=1))
    moving = ag.mul(rows, share)
    return ag.add(moving, ag.sub(rows, moving).detach())


def _factors(index: Any, weights: Any, mode: str) -> Any:
    if weights is None:
        return None
    given = ag.as_operand(weights, index.device)
    if mode != "sum" or given.shape != index.shape:
        text = f"per_sample_weights of shape {given.shape} with mode={mode!r}"
        expected = f"mode='sum', and the shape {index.shape} of the input"
        raise ArgumentError(message(_WHO, text, expected))
    return given


def _padded(count: int, offsets: Any, last: bool) -> tuple[Any, Any]:
    """A row for each bag: the positions of its indices, and which of these are there."""
    begins = np.asarray(offsets.to_host() if isinstance(offsets, Tensor) else offsets)
    if begins.ndim != 1:
        raise ShapeError(message(_WHO, f"offsets of shape {begins.shape}", "one dimension"))
    if begins.size and not np.issubdtype(begins.dtype, np.integer):
        raise DtypeError(message(_WHO, f"offsets of dtype {begins.dtype}", "integers"))
    ends = begins[1:] if last else np.append(begins[1:], count)
    begins = begins[: len(ends)]
    if len(begins) and (begins[0] != 0 or (ends < begins).any() or ends[-1] > count):
        given = f"offsets {begins.tolist()} for {count} indices"
        raise AttributeValueError(message(_WHO, given, "0 first, and none that falls"))
    longest = max(1, int((ends - begins).max(initial=0)))
    places = begins[:, None] + np.arange(longest)
    there = places < ends[:, None]
    return np.where(there, places, 0).astype(np.int64), there


def _taken(x: Any, places: Any) -> Any:
    """Elements of a vector by their positions, in the shape of these."""
    if not x.size:
        return ag.reshape(x, (places.shape[0], 0))
    flat = Tensor.from_host(places.reshape(-1), x.device)
    return ag.reshape(ag.index_select(x, 0, flat), places.shape)


def _counts(index: Any, there: Any, padding_idx: int | None, rows: int) -> Any:
    """(bags, size, 1): which rows count; None: all."""
    counts = None if there is None else Tensor.from_host(there[..., None], index.device)
    if padding_idx is None:
        return counts
    padding = axis(_WHO, padding_idx, rows)
    real = ag.unsqueeze(ag.ne(index, padding), -1)
    return real if counts is None else ag.logical_and(counts, real)


def _reduced(rows: Any, counts: Any, mode: str) -> Any:
    """Rows (bags, size, features) to (bags, features)."""
    if counts is None:
        return ag.max(rows, 1).values if mode == "max" else getattr(ag, mode)(rows, 1)
    if mode != "max":
        total = ag.sum(ag.where(counts, rows, 0.0), 1)
        if mode == "sum":
            return total
        return ag.div(total, ag.clamp(ag.sum(counts.astype(rows.dtype), 1), 1.0))
    largest = ag.max(ag.where(counts, rows, -np.inf), 1).values
    return ag.where(ag.amax(counts, 1), largest, 0.0)


OPERATORS = (composite(embedding_bag),)
