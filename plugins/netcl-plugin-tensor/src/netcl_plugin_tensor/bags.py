"""embedding_bag: sums, means and maxima of the rows that each bag of indices names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved, composite
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    ShapeError,
    message,
)
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.axes import axis
from netcl_plugin_tensor.embedding_rows import by_frequency, renormalized
from netcl_plugin_tensor.selecting import ADD_AT_INDEX

_WHO = "embedding_bag"
_INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")


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
        offsets: Where each bag of the latter begins. The host reads them, unless they are few and
            it has sent them there itself.
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
        begins = ag.as_operand(offsets, index.device)
        plain = factors is None and not scale_grad_by_freq and mode != "max"
        if plain and _are_bags(weight, index, begins, include_last_offset):
            padding = -1 if padding_idx is None else axis(_WHO, padding_idx, weight.shape[0])
            attrs = {"mean": mode == "mean", "last": bool(include_last_offset)}
            return BAGS(weight, index, begins, padding=padding, **attrs)
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


def _are_bags(weight: Any, index: Any, begins: Any, last: bool) -> bool:
    """Whether there is something to add up, and integers that say what."""
    integers = index.dtype in _INTEGERS and begins.dtype in _INTEGERS
    return bool(integers and index.size and weight.size and begins.ndim == 1 and begins.size > last)


def _bags(weight: Any, index: Any, offsets: Any, mean: bool, last: bool, padding: int) -> Any:
    """The sums or means by ops."""
    places, there = _padded(index.shape[0], offsets, last)
    index = _taken(index, places)
    rows = ag.embedding(index, weight, None if padding < 0 else padding)
    counts = _counts(index, there, None if padding < 0 else padding, weight.shape[0])
    return _reduced(rows, counts, "mean" if mean else "sum")


def _infer_bags(
    weight: Spec, index: Spec, offsets: Spec, mean: bool, last: bool, padding: int
) -> Spec:
    return Spec((offsets.shape[0] - last, weight.shape[1]), weight.dtype)


def _check_bags(operands: Sequence[Any], attrs: Any) -> None:
    """Raise AttributeValueError for an index out of range, or offsets that fall."""
    weight, index, offsets = operands
    low, high = index.int_range()
    if low < 0 or high >= weight.shape[0]:
        given = f"the index {low if low < 0 else high}"
        raise AttributeValueError(message(_WHO, given, f"0 to {weight.shape[0] - 1}"))
    _ends(offsets, index.shape[0], attrs["last"])


def _kernel(entry: str, request: Request) -> Kernels:
    """A launch over the lines of the result; those of the first input may lie apart."""
    spec, offsets = request.output, request.inputs[2]
    dtype, features = DTYPES[spec.dtype], spec.shape[1]
    layout = request.layout(0)
    row, start = (features, 0) if layout is None else (layout.strides[0], layout.offset)
    width = math.gcd(features, row, start, 16 // dtype.itemsize)
    context = {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "index": DTYPES[request.inputs[1].dtype].storage,
        "begin": DTYPES[offsets.dtype].storage,
        "width": width,
        **request.attrs,
    }
    bags = offsets.shape[0] - request.attrs["last"]
    sizes = (bags, request.inputs[1].size, features // width, row, start)
    numbers = [("ulong", number) for number in sizes]
    args = (("in", 0), ("in", 1), ("in", 2), ("out", 0), *numbers)
    items = geometry.groups(request.device, spec.size // width)
    return Kernels((Kernel("tensor/bags.cl.j2", entry, args, *items, context),))


def _reads(request: Request) -> Sequence[bool]:
    layout = request.layout(0)
    return layout is None or (layout.strides[0] >= 0 and layout.strides[1] == 1), False, False


def _rows_in_numpy(
    grad: Any, index: Any, offsets: Any, mean: bool, last: bool, padding: int
) -> Any:
    """The gradient of each index's row."""
    rows, ends = np.zeros((len(index), grad.shape[1]), grad.dtype), np.append(offsets, len(index))
    for bag in range(len(offsets) - last):
        here = np.arange(ends[bag], ends[bag + 1])
        here = here[index[here] != padding]
        rows[here] = widened(grad[bag]) / (len(here) if mean else 1)
    return rows


#: The gradient of each row that a bag names.
BAG_ROWS: Final = Operator(
    name="bag_rows",
    bind=lambda grad, index, offsets, **attrs: ((grad, index, offsets), attrs),
    infer=lambda grad, index, offsets, **attrs: Spec((index.shape[0], grad.shape[1]), grad.dtype),
    reference=_rows_in_numpy,
    implementations=(
        Implementation("bag_rows", "item per row", partial(_kernel, "bag_rows"), reads=_reads),
    ),
    doc="bag_rows(grad, index, offsets, mean, last, padding): of each index its bag's gradient.",
)


def _gradients(saved: Saved, grad: Tensor) -> Sequence[Any]:
    weight, index, offsets = saved.inputs
    rows = BAG_ROWS(grad, index, offsets, **saved.attrs)
    flags = {"who": "found", "whole": True, "wraps": False}
    added = ADD_AT_INDEX(rows, index, dim=0, shape=weight.shape, **flags)
    return [added, None, None]


#: Sums or means of bags whose offsets stay on the device.
BAGS: Final = composite(
    _bags,
    ("weight", "index", "offsets"),
    name="embedding_bags",
    infer=_infer_bags,
    check=_check_bags,
    implementations=(
        Implementation(
            "embedding_bags",
            "item per bag",
            partial(_kernel, "bag_sums"),
            Requirements(dtypes=("bfloat16", "float16", "float32", "float64")),
            backward=_gradients,
            saves=lambda request, needs: (1, 2),
            saves_results=(),
            reads=_reads,
        ),
    ),
    parts=(BAG_ROWS,),
    method=False,
)


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
    begins, ends = _ends(offsets, count, last)
    longest = max(1, int((ends - begins).max(initial=0)))
    places = begins[:, None] + np.arange(longest)
    there = places < ends[:, None]
    return np.where(there, places, 0).astype(np.int64), there


def _ends(offsets: Any, count: int, last: bool) -> tuple[Any, Any]:
    """Where bags begin and end; raises AttributeValueError for offsets that are none."""
    known = offsets.value.known_integers() if isinstance(offsets, Tensor) else offsets
    begins = np.asarray(offsets.to_host() if known is None else known)
    if begins.ndim != 1:
        raise ShapeError(message(_WHO, f"offsets of shape {begins.shape}", "one dimension"))
    if begins.size and not np.issubdtype(begins.dtype, np.integer):
        raise DtypeError(message(_WHO, f"offsets of dtype {begins.dtype}", "integers"))
    ends = begins[1:] if last else np.append(begins[1:], count)
    begins = begins[: len(ends)]
    if len(begins) and (begins[0] != 0 or (ends < begins).any() or ends[-1] > count):
        given = f"offsets {begins.tolist()} for {count} indices"
        raise AttributeValueError(message(_WHO, given, "0 first, and none that falls"))
    return begins, ends


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


OPERATORS = (composite(embedding_bag, parts=(BAGS,)),)
