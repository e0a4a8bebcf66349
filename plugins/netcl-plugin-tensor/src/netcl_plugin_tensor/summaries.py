"""What lines say: quantiles, modes, running extremes, searches, reductions at indices."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, plain_shape, whole
from netcl_plugin_tensor.order_statistics import line_of
from netcl_plugin_tensor.picking import everywhere
from netcl_plugin_tensor.selecting import ADD_AT_INDEX, GATHER

_MinMax = namedtuple("_MinMax", ("min", "max"))
_Mode = namedtuple("_Mode", ("values", "indices"))
_Running = namedtuple("_Running", ("values", "indices"))


def _operand(x: Any) -> Any:
    return ag.as_operand(x, nc.default_device())


def _choice(who: str, name: str, given: Any, choices: tuple[str, ...]) -> None:
    if given not in choices:
        expected = " or ".join(map(repr, choices))
        raise AttributeValueError(message(who, f"{name}={given!r}", expected))


# -- moments and extremes ----------------------------------------------------------------


def std_mean(x: Any, dim: Any = None, correction: float | None = 1, keepdim: bool = False, *,
             unbiased: bool | None = None) -> tuple[Any, Any]:  # fmt: skip
    """The standard deviation and the mean over axes; arguments as of `std`."""
    return ag.std(x, dim, correction, keepdim, unbiased=unbiased), ag.mean(x, _all(dim), keepdim)


def var_mean(x: Any, dim: Any = None, correction: float | None = 1, keepdim: bool = False, *,
             unbiased: bool | None = None) -> tuple[Any, Any]:  # fmt: skip
    """The variance and the mean over axes; arguments as of `var`."""
    return ag.var(x, dim, correction, keepdim, unbiased=unbiased), ag.mean(x, _all(dim), keepdim)


def _all(dim: Any) -> Any:
    """No axes are all, and so is a bool, which is the older way to say `unbiased`."""
    return None if isinstance(dim, bool) or dim == () or dim == [] else dim


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """A named tuple of the `min` and the `max` of all elements or along an axis."""
    return _MinMax(ag.amin(input, dim, keepdim), ag.amax(input, dim, keepdim))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference of two tensors, which are broadcast."""
    return ag.norm(ag.sub(input, other), p)


def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """The slices along an axis, each scaled down so that its p-norm is at most `maxnorm`."""
    x = _operand(input)
    place = axis("renorm", dim, x.ndim)
    if x.ndim < 2 or not p > 0 or not maxnorm >= 0:
        given = f"shape {x.shape}, p={p!r}, maxnorm={maxnorm!r}"
        raise AttributeValueError(message("renorm", given, "two dimensions, p > 0, maxnorm >= 0"))
    size = ag.norm(x, p, [i for i in range(x.ndim) if i != place], True)
    few = ag.div(maxnorm, ag.add(size, 1e-7))
    return ag.mul(x, ag.where(ag.gt(size, maxnorm), few, 1.0))


def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance of variables, a row of `input` each, over observations, its columns.

    Args:
        input: (variables, observations) or a vector, which is one variable.
        correction: What is subtracted from the number of observations.
        fweights: How often each observation was made: integers, or None.
        aweights: How much each observation counts, or None.
    """
    x = _operand(input)
    if x.ndim > 2:
        raise ShapeError(message("cov", f"shape {x.shape}", "at most two dimensions"))
    rows = ag.reshape(x, (-1, x.shape[-1])) if x.ndim else ag.reshape(x, (1, 1))
    rows = rows if DTYPES[rows.dtype].floating else rows.astype("float32")
    given = [ag.as_operand(w, x.device) for w in (fweights, aweights) if w is not None]
    weights = [w.astype(rows.dtype) for w in given]
    if not weights:
        count: Any = rows.shape[1]
        centered = ag.sub(rows, ag.mean(rows, 1, True))
        product, left = ag.matmul(centered, ag.t(centered)), max(count - correction, 0)
        found = ag.mul(product, 1 / left) if left else ag.div(product, 0.0)
    else:
        weight = weights[0] if len(weights) == 1 else ag.mul(*weights)
        total = ag.sum(weight)
        centered = ag.sub(rows, ag.div(ag.sum(ag.mul(rows, weight), 1, True), total))
        less: Any = correction
        if aweights is not None and correction:
            less = ag.mul(ag.div(ag.sum(ag.mul(weight, weights[-1])), total), correction)
        left = ag.clamp(ag.sub(total, less), 0)
        found = ag.div(ag.matmul(centered, ag.t(ag.mul(centered, weight))), left)
    return found if x.ndim == 2 and x.shape[0] != 1 else ag.squeeze(found)


def corrcoef(input: Any) -> Any:
    """The correlation coefficients of variables, a row of `input` each; between -1 and 1."""
    found = cov(input)
    if not found.ndim:
        return ag.div(found, found)
    spread = ag.sqrt(ag.diag(found))
    return ag.clamp(ag.div(ag.div(found, ag.unsqueeze(spread, 1)), spread), -1, 1)


def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral of samples along an axis by the trapezoidal rule.

    Args:
        y: The samples.
        x: Where they stand, as they are or along the axis; None: `dx` apart.
        dx: How far apart.
        dim: The axis.
    """
    parts, place = _areas("trapezoid", y, x, dx, dim)
    return ag.sum(parts, place)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The running integral by the trapezoidal rule; arguments as of `trapezoid`."""
    parts, place = _areas("cumulative_trapezoid", y, x, dx, dim)
    return ag.cumsum(parts, place)


def trapz(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral by the trapezoidal rule: `trapezoid`."""
    return ag.trapezoid(y, x, dx=dx, dim=dim)


def _areas(who: str, y: Any, x: Any, dx: float, dim: int) -> tuple[Any, int]:
    samples = _operand(y)
    place = axis(who, dim, samples.ndim)
    if not samples.ndim:
        raise ShapeError(message(who, "a tensor without dimensions", "at least one"))
    size = samples.shape[place]
    if not size:
        return samples, place

    def pair(of: Any, at: int) -> tuple[Any, Any]:
        return ag.narrow(of, at, 1, of.shape[at] - 1), ag.narrow(of, at, 0, of.shape[at] - 1)

    later, before = pair(samples, place)
    if x is None:
        return ag.mul(ag.add(later, before), dx / 2), place
    where = ag.as_operand(x, samples.device)
    if not where.ndim:
        raise ShapeError(message(who, "x without dimensions", "a place for each sample"))
    if where.ndim == 1:
        where = ag.reshape(where, [-1 if i == place else 1 for i in range(samples.ndim)])
    widths = ag.sub(*pair(where, place - samples.ndim + where.ndim))
    return ag.mul(ag.mul(ag.add(later, before), widths), 0.5), place


# -- order -------------------------------------------------------------------------------


def msort(input: Any) -> Any:
    """The tensor in order along its first axis: `sort(x, 0).values`."""
    return ag.sort(input, 0).values


def quantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
             interpolation: str = "linear") -> Any:  # fmt: skip
    """What so large a part of the elements lies below, along an axis or of all.

    >>> nc.tensor([1.0, 2.0, 3.0, 4.0]).quantile(0.5).item()
    2.5

    Args:
        input: A floating tensor; a line with NaN has NaN.
        q: A number from 0 to 1, or a vector of them, whose axis is the first of the result.
        dim: The axis; None: of the flattened tensor.
        keepdim: Whether the axis stays, with size 1.
        interpolation: `'linear'`, `'lower'`, `'higher'`, `'midpoint'` or `'nearest'`.
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


def nanquantile(input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
                interpolation: str = "linear") -> Any:  # fmt: skip
    """The quantile of what is not NaN; arguments as of `quantile`."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(who: str, input: Any, q: Any, dim: Any, keepdim: bool, how: str) -> Any:
    _choice(who, "interpolation", how, ("linear", "lower", "higher", "midpoint", "nearest"))
    given = _operand(input)
    if given.dtype not in ("float32", "float64"):
        raise DtypeError(message(who, f"a {given.dtype} tensor", "float32 or float64"))
    flat = ag.reshape(given, (-1,)) if dim is None else given
    x, place, size = line_of(who, ag.reshape(flat, (1,)) if not flat.ndim else flat, dim or 0)
    levels = nc.as_tensor(q, dtype=x.dtype, device=x.device)
    if levels.ndim > 1:
        raise ShapeError(message(who, f"q of shape {levels.shape}", "a number or a vector"))
    lines = ag.movedim(ag.sort(x, place).values, place, -1)
    spoilt = ag.isnan(lines)
    known = ag.sum(ag.logical_not(spoilt), -1, True)
    last = ag.clamp(ag.sub(known, 1), 0).astype(x.dtype)
    ranks = ag.mul(ag.reshape(levels, (-1,)), last)
    if who == "quantile":
        ranks = ag.where(ag.lt(known, size), float(size - 1), ranks)
    if how in ("lower", "higher", "nearest"):
        rounded = {"lower": ag.floor, "higher": ag.ceil, "nearest": ag.round}[how](ranks)
        found = GATHER(lines, -1, rounded.astype("int64"))
    else:
        low = ag.floor(ranks)
        below = GATHER(lines, -1, low.astype("int64"))
        above = GATHER(lines, -1, ag.ceil(ranks).astype("int64"))
        found = ag.lerp(below, above, 0.5 if how == "midpoint" else ag.sub(ranks, low))
        if how == "midpoint":
            found = ag.where(ag.eq(low, ranks), below, found)
    found = ag.movedim(found, -1, 0)
    if keepdim:
        found = ag.unsqueeze(found, place + 1)
        if dim is None:
            found = ag.reshape(found, (found.shape[0], *[1] * given.ndim))
    elif not given.ndim:
        found = ag.reshape(found, (-1,))
    return found if levels.ndim else ag.squeeze(found, 0)


def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element of what is not NaN; arguments and results as of `median`."""
    if dim is None:
        return nanmedian(ag.reshape(input, (-1,)), 0).values
    x, place, _ = line_of("nanmedian", input, dim)
    if not x.ndim or not DTYPES[x.dtype].floating:
        return ag.median(x, dim, keepdim)
    ranked = ag.sort(x, place)
    known = ag.sum(ag.logical_not(ag.isnan(x)), place, True)
    middle = ag.clamp(ag.floor_divide(ag.sub(known, 1), 2), 0)
    found = [GATHER(each, place, middle) for each in ranked]
    return _Mode(*(found if keepdim else [ag.squeeze(each, place) for each in found]))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """A named tuple of the most frequent `values` along an axis, and the `indices` of their last.

    Of values that are as frequent the smallest is taken.
    """
    x, place, size = line_of("mode", input, dim)
    if not x.ndim:
        return _Mode(x, ag.full_like(x, 0).astype("int64"))
    ranked = ag.sort(x, place)
    steps = ag.reshape(nc.arange(size, device=x.device),
                       [-1 if i == place else 1 for i in range(x.ndim)])  # fmt: skip
    values = ranked.values.detach()
    fresh = ag.ne(ag.narrow(values, place, 1, size - 1), ag.narrow(values, place, 0, size - 1))
    first = ag.expand(ag.narrow(steps, place, 0, 1), [1 if i == place else n for i, n in
                                                      enumerate(x.shape)])  # fmt: skip
    starts = ag.cat([first, ag.where(fresh, ag.narrow(steps, place, 1, size - 1), 0)], place)
    lengths = ag.sub(steps, _scanned(starts, place, ag.maximum))
    best = ag.argmax(lengths, place, True)
    found = [GATHER(each, place, best) for each in ranked]
    return _Mode(*(found if keepdim else [ag.squeeze(each, place) for each in found]))


def _scanned(x: Any, place: int, join: Callable[[Any, Any], Any]) -> Any:
    """Running results of an associative op, in steps that double (Hillis, Steele 1986)."""
    size, step = x.shape[place], 1
    while step < size:
        later, before = ag.narrow(x, place, step, size - step), ag.narrow(x, place, 0, size - step)
        x = ag.cat([ag.narrow(x, place, 0, step), join(before, later)], place)
        step *= 2
    return x


def cummax(input: Any, dim: int) -> Any:
    """A named tuple of the running maxima along an axis, `values`, and their last `indices`."""
    return _running("cummax", input, dim, ag.ge)


def cummin(input: Any, dim: int) -> Any:
    """A named tuple of the running minima along an axis, `values`, and their last `indices`."""
    return _running("cummin", input, dim, ag.le)


def _running(who: str, input: Any, dim: int, better: Callable[[Any, Any], Any]) -> Any:
    x = _operand(input)
    place = axis(who, dim, x.ndim)
    if not x.ndim or not x.size:
        return _Running(ag.clone(x), ag.full_like(x, 0).astype("int64"))
    size, step, values = x.shape[place], 1, x.detach()
    along = ag.reshape(nc.arange(size, device=x.device),
                       [-1 if i == place else 1 for i in range(x.ndim)])  # fmt: skip
    places = ag.clone(ag.expand(along, x.shape))
    while step < size:
        rest = size - step
        old, new = ag.narrow(values, place, 0, rest), ag.narrow(values, place, step, rest)
        wins = better(new, old)
        if DTYPES[x.dtype].floating:
            wins = ag.logical_or(ag.isnan(new), ag.logical_and(ag.logical_not(ag.isnan(old)), wins))
        found = [ag.where(wins, ag.narrow(each, place, step, rest), ag.narrow(each, place, 0, rest))
                 for each in (values, places)]  # fmt: skip
        values, places = (ag.cat([ag.narrow(each, place, 0, step), part], place)
                          for each, part in zip((values, places), found, strict=True))  # fmt: skip
        step *= 2
    return _Running(GATHER(x, place, places), places)


def logcumsumexp(input: Any, dim: int) -> Any:
    """The logarithm of running sums of exp(x) along an axis, without overflow."""
    x = _operand(input)
    place = axis("logcumsumexp", dim, x.ndim)
    return _scanned(x, place, ag.logaddexp) if x.ndim else ag.clone(x)


# -- searches ----------------------------------------------------------------------------


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
    """
    _choice("searchsorted", "side", side or "left", ("left", "right"))
    lines = _operand(sorted_sequence)
    values = ag.as_operand(input, lines.device)
    if not lines.ndim or (lines.ndim > 1 and lines.shape[:-1] != values.shape[:-1]):
        given = f"lines of shape {lines.shape} for values of shape {values.shape}"
        raise ShapeError(message("searchsorted", given, "a vector, or a line for each"))
    if sorter is not None:
        lines = ag.gather(lines, -1, ag.as_operand(sorter, lines.device))
    size, behind = lines.shape[-1], right or side == "right"
    rows = values if lines.ndim > 1 else ag.reshape(values, (-1,))
    found = Tensor.zeros(rows.shape, "int64", lines.device)
    step = 1 << max(size.bit_length() - 1, 0)
    while step and size and rows.size:
        next_places = ag.add(found, step)
        there = GATHER(lines, -1, ag.sub(ag.clamp(next_places, None, size), 1))
        # NaN counts as the largest.
        before = ag.logical_not(ag.gt(there, rows) if behind else ag.ge(there, rows))
        if DTYPES[there.dtype].floating or DTYPES[rows.dtype].floating:
            lost, wild = ag.isnan(there), ag.isnan(rows)
            before = ag.where(wild, ag.logical_not(lost) if not behind else True,
                              ag.logical_and(before, ag.logical_not(lost)))  # fmt: skip
        taken = ag.logical_and(ag.le(next_places, size), before)
        found = ag.where(taken, next_places, found)
        step //= 2
    found = ag.reshape(found, values.shape)
    return found.astype("int32") if out_int32 else found


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """In which of the parts between sorted boundaries each value lies: `searchsorted`, turned."""
    return ag.searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False,
         invert: bool = False) -> Any:  # fmt: skip
    """Whether each element is one of others, by a search in these, sorted.

    Args:
        elements: A tensor of any dtype, or a number.
        test_elements: The others.
        assume_unique: Whether none comes twice; it changes nothing.
        invert: Whether it is not.
    """
    tensors = [each for each in (elements, test_elements) if isinstance(each, Tensor)]
    device = tensors[0].device if tensors else nc.default_device()
    x, others = (ag.as_operand(each, device) for each in (elements, test_elements))
    if not others.size:
        return Tensor.full(x.shape, bool(invert), "bool", device)
    row = ag.sort(ag.reshape(others, (-1,))).values
    places = ag.clamp(ag.searchsorted(row, x), None, row.size - 1)
    there = GATHER(row, 0, ag.reshape(places, (-1,)))
    found = ag.eq(ag.reshape(there, x.shape), x)
    return ag.logical_not(found) if invert else found


def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements lie in each of so many parts of equal width; others are not counted.

    Args:
        input: A floating tensor.
        bins: How many parts.
        min: Where the first begins.
        max: Where the last ends, which belongs to it; if it is `min`, the input's own bounds.
    """
    x = _operand(input)
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

    Args:
        input: A tensor of any dtype.
        return_inverse: Whether the place of each element in the result follows.
        return_counts: Whether it follows how many each stands for.
        dim: The axis; None: of the flattened tensor.

    The host waits for the data, which alone tells how many there are.
    """
    x = _operand(input)
    array = x.to_host()
    place = 0 if dim is None else axis("unique_consecutive", dim, x.ndim)
    lines = array.reshape(-1) if dim is None else np.moveaxis(np.atleast_1d(array), place, 0)
    rows = lines.reshape(lines.shape[0], math.prod(lines.shape[1:]))
    fresh = np.ones(len(rows), np.bool_)
    fresh[1:] = (rows[1:] != rows[:-1]).any(1)
    inverse = np.cumsum(fresh) - 1
    counts = np.diff(np.flatnonzero(np.append(fresh, True)))
    if dim is None:
        inverse = inverse.reshape(array.shape)
    found = [np.ascontiguousarray(np.moveaxis(lines[fresh], 0, place))]
    found += [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    made = [Tensor.from_host(np.asarray(each), x.device) for each in found]
    return made[0] if len(made) == 1 else tuple(made)


# -- reductions at indices ---------------------------------------------------------------

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
    _choice("scatter_reduce", "reduce", reduce, ("sum", "prod", "mean", "amax", "amin"))
    x = _operand(input)
    places, values = ag.as_operand(index, x.device), ag.as_operand(src, x.device)
    if not places.size:
        return ag.clone(x)
    if not x.ndim:
        parts = [ag.reshape(each, (1,)) for each in (x, places, values)]
        found = ag.scatter_reduce(parts[0], 0, *parts[1:], reduce, include_self=include_self)
        return ag.reshape(found, ())
    if values.shape != places.shape:
        values = ag.getitem(values, tuple([slice(size) for size in places.shape]))
    place = axis("scatter_reduce", dim, x.ndim)
    if x.dtype == "bool":
        whole_numbers = [each.astype("int64") for each in (x, values)]
        found = ag.scatter_reduce(whole_numbers[0], dim, places, whole_numbers[1], reduce,
                                  include_self=include_self)  # fmt: skip
        return ag.ne(found, 0)
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
        found = join(start, runs)
    if not DTYPES[x.dtype].floating or not ag.is_grad_enabled():
        return found
    return _shared_extreme(found, start, values, place, places)


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
    total, hits = (ADD_AT_INDEX(each, where, place, "found", False, False, start.shape)
                   for each in (ag.where(last, parts, 0), ones))  # fmt: skip
    return ag.where(ag.gt(hits, 0), total, neutral)


def _zero(dtype: str) -> Any:
    return False if dtype == "bool" else 0


def _shared_extreme(found: Any, start: Any, values: Any, place: int, places: Any) -> Any:
    """The extreme as the mean of those that equal it, which share its gradient."""
    own = ag.eq(start.detach(), found)
    hits = ag.eq(values.detach(), ag.gather(found, place, places))
    zero = 0.0
    count = ag.scatter_add(own.astype(found.dtype), place, places, hits.astype(found.dtype))
    inside = [ag.where(own, start, zero), ag.where(hits, values, zero)]
    mean = ag.div(ag.scatter_add(inside[0], place, places, inside[1]), count)
    change = ag.sub(mean, mean.detach())
    return ag.add(found, ag.where(ag.isfinite(change.detach()), change, zero))


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

    Args:
        input: A tensor.
        dim: The dimension.
        index: int64, one place for each slice of `source`.
        source: Of the input's shape, but for `dim`.
        reduce: `'prod'`, `'mean'`, `'amax'` or `'amin'`.
        include_self: Whether the input's own element counts where something is put.
    """
    _choice("index_reduce", "reduce", reduce, ("prod", "mean", "amax", "amin"))
    x = _operand(input)
    values = ag.as_operand(source, x.device)
    places = everywhere(index, values, dim)
    return ag.scatter_reduce(x, dim, places, values, reduce, include_self=include_self)


def logspace(start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None,
             device: Any = None) -> Any:  # fmt: skip
    """Powers of `base` with exponents from `start` to `end`, evenly spaced, both included."""
    plain_shape("logspace", steps)
    exponents = nc.linspace(start, end, steps, dtype="float64", device="numpy").numpy()
    with np.errstate(all="ignore"):
        found = np.power(np.float64(base), exponents)
    return nc.tensor(found, dtype="float32" if dtype is None else dtype, device=device)


OPERATORS: Final = (
    composite(std_mean, ("x",)),
    composite(var_mean, ("x",)),
    composite(aminmax, ("input",)),
    composite(dist, ("input", "other")),
    composite(renorm, ("input",)),
    composite(cov, ("input",)),
    composite(corrcoef, ("input",)),
    composite(trapezoid, ("y", "x"), method=False),
    composite(trapz, ("y", "x"), method=False),
    composite(cumulative_trapezoid, ("y", "x"), method=False),
    composite(msort, ("input",)),
    composite(quantile, ("input",)),
    composite(nanquantile, ("input",)),
    composite(nanmedian, ("input",)),
    composite(mode, ("input",)),
    composite(cummax, ("input",)),
    composite(cummin, ("input",)),
    composite(logcumsumexp, ("input",)),
    composite(searchsorted, method=False),
    composite(bucketize, method=False),
    composite(isin, method=False),
    composite(histc, ("input",)),
    composite(unique_consecutive, ("input",)),
    composite(scatter_reduce, ("input", "index", "src")),
    composite(index_reduce, ("input", "index", "source")),
    composite(logspace, method=False),
)
