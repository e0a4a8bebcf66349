"""Places of values in sorted lines, and what they tell: membership, counts, runs."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, one_of, whole
from netcl_plugin_tensor.compacting import true_places
from netcl_plugin_tensor.selecting import ADD_AT_INDEX, GATHER


def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None, sorter: Any = None) -> Any:  # fmt: skip
    """Where values would be put into sorted lines, which stay sorted: int64 places.

    >>> nc.searchsorted(nc.tensor([1.0, 3.0, 5.0]), nc.tensor([3.0, 6.0])).tolist()
    [1, 3]

    Args:
        sorted_sequence: Lines along the last axis: a vector, or one line for each of the input's.
        input: The values, or a number.
        out_int32: Whether places are int32.
        right: Whether a value goes behind equal ones.
        side: `'left'` or `'right'`, the other way to say it.
        sorter: int64 places that sort the sequence, if it is not sorted.

    It halves what is left, for all values at once.

    Raises:
        ShapeError: Unless given a vector, or a line for each.
    """
    one_of("searchsorted", "side", side or "left", ("left", "right"))
    lines = ag.as_operand(sorted_sequence)
    values = ag.as_operand(input, lines.device)
    if not lines.ndim or (lines.ndim > 1 and lines.shape[:-1] != values.shape[:-1]):
        given = f"lines of shape {lines.shape} for values of shape {values.shape}"
        raise ShapeError(message("searchsorted", given, "a vector, or a line for each"))
    if sorter is not None:
        lines = ag.gather(lines, -1, ag.as_operand(sorter, lines.device))
    size, behind = lines.shape[-1], right or side == "right"
    rows = values if lines.ndim > 1 else ag.reshape(values, (-1,))
    places = Tensor.zeros(rows.shape, "int64", lines.device)
    step = 1 << max(size.bit_length() - 1, 0)
    while step and size and rows.size:
        next_places = ag.add(places, step)
        there = GATHER(lines, -1, ag.sub(ag.clamp(next_places, None, size), 1))
        # NaN counts as the largest.
        before = ag.logical_not(ag.gt(there, rows) if behind else ag.ge(there, rows))
        if DTYPES[there.dtype].floating or DTYPES[rows.dtype].floating:
            lost, wild = ag.isnan(there), ag.isnan(rows)
            before = ag.where(wild, ag.logical_not(lost) if not behind else True,
                              ag.logical_and(before, ag.logical_not(lost)))  # fmt: skip
        taken = ag.logical_and(ag.le(next_places, size), before)
        places = ag.where(taken, next_places, places)
        step //= 2
    places = ag.reshape(places, values.shape)
    return places.astype("int32") if out_int32 else places


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """In which of the parts between sorted boundaries each value lies: `searchsorted`, turned.

    >>> ag.bucketize([1.0, 5.0], [0.0, 2.0, 4.0]).tolist()
    [1, 3]

    Args:
        out_int32: Whether the numbers are int32, not int64.
        right: Whether a value equal to a boundary goes behind it.
    """
    return ag.searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False,
         invert: bool = False) -> Any:  # fmt: skip
    """Whether each element is one of others, by a search in these, sorted.

    >>> ag.isin([1, 2, 3], [2]).tolist()
    [False, True, False]

    Args:
        elements: A tensor of any dtype, or a number.
        test_elements: The others.
        assume_unique: Whether none comes twice; it changes nothing.
        invert: Whether it is not.
    """
    x, others = ag.as_operands(elements, test_elements)
    if not others.size:
        return Tensor.full(x.shape, bool(invert), "bool", x.device)
    row = ag.sort(ag.reshape(others, (-1,))).values
    places = ag.clamp(ag.searchsorted(row, x), None, row.size - 1)
    there = GATHER(row, 0, ag.reshape(places, (-1,)))
    member = ag.eq(ag.reshape(there, x.shape), x)
    return ag.logical_not(member) if invert else member


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of so many parts of equal width; others are not counted.

    For inputs of any shape; integers raise DtypeError.

    >>> ag.histc([0.0, 1.0, 1.0, 2.0], 2, 0.0, 2.0).tolist()
    [1.0, 3.0]

    Args:
        input: A floating tensor.
        bins: How many parts.
        min: Where the first begins.
        max: Where the last ends, which belongs to it; if it is `min`, the input's own bounds.

    Raises:
        AttributeValueError: Unless given at least one, and bounds in order.
        DtypeError: Unless given a floating dtype.
    """
    x = ag.as_operand(input)
    if whole(bins) is None or bins < 1 or not min <= max:
        given = f"bins={bins!r}, min={min!r}, max={max!r}"
        raise AttributeValueError(message("histc", given, "at least one, and bounds in order"))
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("histc", f"a {x.dtype} tensor", "a floating dtype"))
    flat = ag.reshape(x.detach(), (-1,))
    if not flat.size:
        return Tensor.zeros((bins,), x.dtype, x.device)
    low: Any = ag.amin(flat) if min == max else min
    high: Any = ag.amax(flat) if min == max else max
    if min == max:
        same = ag.eq(low, high)
        low, high = ag.sub(low, same), ag.add(high, same)
    inside = ag.logical_and(ag.ge(flat, low), ag.le(flat, high))
    part = ag.floor(ag.mul(ag.div(ag.sub(flat, low), ag.sub(high, low)), float(bins)))
    place = ag.clamp(ag.where(inside, part, 0.0), 0, bins - 1).astype("int64")
    return ADD_AT_INDEX(inside.astype(x.dtype), place, 0, "found", False, False, (bins,))


def unique_consecutive(input: Any, return_inverse: bool = False, return_counts: bool = False,
                       dim: int | None = None) -> Any:  # fmt: skip
    """The elements, or slices along an axis, without those that equal the one before them.

    >>> ag.unique_consecutive([1, 1, 2, 1]).tolist()
    [1, 2, 1]

    Args:
        input: A tensor of any dtype.
        return_inverse: Whether the place of each element in the result follows.
        return_counts: Whether it follows how many each stands for.
        dim: The axis; None: of the flattened tensor.

    The host waits for the data, which alone tells how many there are.
    """
    x = ag.as_operand(input).detach()
    place = 0 if dim is None else axis("unique_consecutive", dim, x.ndim)
    lines = ag.reshape(x, (-1,)) if dim is None or not x.ndim else ag.moveaxis(x, place, 0)
    count = lines.shape[0]
    rows = ag.reshape(lines, (count, math.prod(lines.shape[1:])))
    changes = ag.any(ag.ne(rows[1:], rows[:-1]), 1) if count > 1 else []
    first = Tensor.ones((min(count, 1),), "bool", x.device)
    fresh = ag.cat([first, changes]) if count > 1 else first
    places = true_places(fresh)
    uniques = [ag.moveaxis(ag.index_select(lines, 0, places), 0, place).contiguous()]
    if return_inverse:
        number = ag.sub(ag.cumsum(fresh, 0), 1)
        uniques.append(ag.reshape(number, x.shape) if dim is None else number)
    if return_counts:
        end = Tensor.full((min(count, 1),), count, "int64", x.device)
        uniques.append(ag.sub(ag.cat([places[1:], end]), places))
    return uniques[0] if len(uniques) == 1 else tuple(uniques)


_Histogram = namedtuple("_Histogram", ("hist", "bin_edges"))


def histogram(input: Any, bins: Any = 100, *, range: Any = None, weight: Any = None,
              density: bool = False) -> Any:  # fmt: skip
    """A named tuple of how many elements lie in each part, `hist`, and the bounds, `bin_edges`.

    >>> hist, edges = ag.histogram(nc.tensor([0.0, 0.4, 1.0]), 2)
    >>> hist.tolist(), edges.tolist()
    ([2.0, 1.0], [0.0, 0.5, 1.0])

    Args:
        input: A floating tensor.
        bins: How many parts of equal width, or a vector of bounds in order.
        range: The first and the last bound; None: the least and the largest element.
        weight: How much each element counts, of the input's shape.
        density: Whether the result is divided by its integral.

    Raises:
        DtypeError: Unless given a floating dtype.
        ShapeError: Unless given a vector of two or more.
        AttributeValueError: Unless given at least one.
    """
    x = ag.as_operand(input).detach()
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("histogram", f"a {x.dtype} tensor", "a floating dtype"))
    flat = ag.reshape(x, (-1,))
    if isinstance(bins, Tensor):
        edges = bins.astype(x.dtype)
    elif whole(bins) is None or bins < 1:
        raise AttributeValueError(message("histogram", f"bins={bins!r}", "at least one"))
    else:
        if range is None:
            ends = [ag.amin(flat).item(), ag.amax(flat).item()] if flat.size else [0.0, 0.0]
        elif isinstance(range, (list, tuple)) and len(range) == 2:
            ends = list(range)
        else:
            raise AttributeValueError(message("histogram", f"range={range!r}", "two bounds"))
        if ends[0] == ends[1]:
            ends = [ends[0] - 0.5, ends[1] + 0.5] if flat.size and range is None else [0.0, 1.0]
        edges = nc.linspace(ends[0], ends[1], bins + 1, dtype=x.dtype, device=x.device)
    if edges.ndim != 1 or edges.size < 2:
        raise ShapeError(message("histogram", f"bounds {edges.shape}", "a vector of two or more"))
    count = edges.size - 1
    first, last = edges[0], edges[-1]
    inside = ag.logical_and(ag.ge(flat, first), ag.le(flat, last))
    place = ag.clamp(ag.sub(ag.searchsorted(edges, flat, right=True), 1), 0, count - 1)
    counted = inside.astype(x.dtype)
    if weight is not None:
        counted = ag.mul(counted, ag.reshape(ag.as_operand(weight, x.device), (-1,)))
    counts = ADD_AT_INDEX(counted, place, 0, "found", False, False, (count,))
    if density:
        counts = ag.div(ag.div(counts, ag.sum(counts)), ag.sub(edges[1:], edges[:-1]))
    return _Histogram(counts, edges)


OPERATORS: Final = (
    composite(histogram, ("input",)),
    composite(searchsorted, method=False),
    composite(bucketize, method=False),
    composite(isin, method=False),
    composite(histc, ("input",)),
    composite(unique_consecutive, ("input",)),
)
