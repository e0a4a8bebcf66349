"""Means, spreads, extremes, distances and integrals of samples."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis

_MinMax = namedtuple("_MinMax", ("min", "max"))


def std_mean(x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False, *,
             unbiased: bool | None = None) -> tuple[Any, Any]:  # fmt: skip
    """The standard deviation and the mean over axes; arguments as of `std`.

    For floating dtypes; others raise DtypeError.

    >>> std, mean = ag.std_mean([1.0, 2.0, 3.0])
    >>> std.item(), mean.item()
    (1.0, 2.0)

    Args:
        correction: What is subtracted from the count in the divisor.
        unbiased: False is a correction of 0.
    """
    correction = 1 if correction is None else correction
    return ag.std(x, dim, correction, keepdim, unbiased=unbiased), ag.mean(x, _all(dim), keepdim)


def var_mean(x: Any, dim: Any = None, correction: float | None = None, keepdim: bool = False, *,
             unbiased: bool | None = None) -> tuple[Any, Any]:  # fmt: skip
    """The variance and the mean over axes; arguments as of `var`.

    >>> var, mean = ag.var_mean([1.0, 2.0, 3.0])
    >>> var.item(), mean.item()
    (1.0, 2.0)
    """
    correction = 1 if correction is None else correction
    return ag.var(x, dim, correction, keepdim, unbiased=unbiased), ag.mean(x, _all(dim), keepdim)


def _all(dim: Any) -> Any:
    """No axes are all, and so is a bool, which is the older way to say `unbiased`."""
    return None if isinstance(dim, bool) or dim == () or dim == [] else dim


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """A named tuple of the `min` and the `max` of all elements or along an axis.

    >>> low, high = ag.aminmax([3.0, 1.0, 2.0])
    >>> low.item(), high.item()
    (1.0, 3.0)
    """
    return _MinMax(ag.amin(input, dim, keepdim), ag.amax(input, dim, keepdim))


def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference of two tensors, which are broadcast.

    For floating dtypes; others raise DtypeError.

    >>> ag.dist([3.0, 0.0], [0.0, 4.0]).item()
    5.0
    """
    return ag.norm(ag.sub(input, other), p)


def renorm(input: Any, p: float, dim: int, maxnorm: float) -> Any:
    """The slices along an axis, each scaled down so that its p-norm is at most `maxnorm`.

    >>> ag.renorm([[3.0, 4.0], [0.3, 0.4]], 2, 0, 1.0).numpy().round(4)
    array([[0.6, 0.8],
           [0.3, 0.4]], dtype=float32)

    Raises:
        AttributeValueError: Unless given two dimensions, p > 0, maxnorm >= 0.
    """
    x = ag.as_operand(input)
    place = axis("renorm", dim, x.ndim)
    if x.ndim < 2 or not p > 0 or not maxnorm >= 0:
        given = f"shape {x.shape}, p={p!r}, maxnorm={maxnorm!r}"
        raise AttributeValueError(message("renorm", given, "two dimensions, p > 0, maxnorm >= 0"))
    size = ag.norm(x, p, [i for i in range(x.ndim) if i != place], True)
    few = ag.div(maxnorm, ag.add(size, 1e-7))
    return ag.mul(x, ag.where(ag.gt(size, maxnorm), few, 1.0))


def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral of samples along an axis by the trapezoidal rule.

    Integers become float32.

    >>> ag.trapezoid([1.0, 3.0, 5.0]).item()
    6.0

    Args:
        y: The samples.
        x: Where they stand, as they are or along the axis; None: `dx` apart.
        dx: How far apart.
        dim: The axis.
    """
    parts, place = _areas("trapezoid", y, x, dx, dim)
    return ag.sum(parts, place)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The running integral by the trapezoidal rule; arguments as of `trapezoid`.

    >>> ag.cumulative_trapezoid([1.0, 3.0, 5.0]).tolist()
    [2.0, 6.0]
    """
    parts, place = _areas("cumulative_trapezoid", y, x, dx, dim)
    return ag.cumsum(parts, place)


def trapz(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral by the trapezoidal rule: `trapezoid`.

    >>> ag.trapz(nc.tensor([1.0, 2.0, 3.0])).item()
    4.0

    Args:
        dx: How far apart the places are.
    """
    return ag.trapezoid(y, x, dx=dx, dim=dim)


def _areas(who: str, y: Any, x: Any, dx: float, dim: int) -> tuple[Any, int]:
    samples = ag.as_operand(y)
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


def gradient(input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Slopes of samples along axes, by differences of second order inside (Fornberg 1988).

    Integers become float32.

    >>> nc.gradient(nc.tensor([0.0, 1.0, 4.0, 9.0]))[0].tolist()
    [1.0, 2.0, 4.0, 5.0]

    Args:
        input: Samples.
        spacing: How far apart they stand: a number, one for each axis, or vectors of places.
        dim: The axes; None: all.
        edge_order: 1 or 2, of the differences at the ends.

    Raises:
        AttributeValueError: Unless given 1 or 2, and one spacing for each.
    """
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    given = range(x.ndim) if dim is None else dim if isinstance(dim, (list, tuple)) else [dim]
    places = [axis("gradient", each, x.ndim) for each in given]
    spacing = 1 if spacing is None else spacing
    alone = not isinstance(spacing, (list, tuple))
    steps = [spacing] * len(places) if alone else list(spacing)
    if edge_order not in (1, 2) or len(steps) != len(places):
        what = f"edge_order={edge_order!r}, {len(steps)} spacings for {len(places)} axes"
        raise AttributeValueError(message("gradient", what, "1 or 2, and one spacing for each"))
    return [_slope(x, place, step, edge_order) for place, step in zip(places, steps, strict=True)]


def _slope(x: Any, place: int, step: Any, order: int) -> Any:
    size = x.shape[place]
    if size <= order:
        raise ShapeError(message("gradient", f"{size} samples", f"at least {order + 1}"))
    if isinstance(step, Tensor) and step.ndim:
        gaps = ag.sub(step[1:], step[:-1])
        if gaps.shape != (size - 1,):
            raise ShapeError(message("gradient", f"places {step.shape}", f"({size},)"))
    else:
        gaps = ag.mul(nc.ones(size - 1, dtype=x.dtype, device=x.device), step)
    gaps = ag.reshape(gaps, [-1 if i == place else 1 for i in range(x.ndim)])
    rises = ag.div(ag.sub(ag.narrow(x, place, 1, size - 1), ag.narrow(x, place, 0, size - 1)), gaps)

    def at(of: Any, start: int, count: int = 1) -> Any:
        return ag.narrow(of, place, start % (size - 1), count)

    parts = [at(rises, 0), at(rises, -1)]
    if size > 2:
        before, after = at(gaps, 0, size - 2), at(gaps, 1, size - 2)
        weighted = ag.add(
            ag.mul(at(rises, 0, size - 2), after), ag.mul(at(rises, 1, size - 2), before)
        )
        parts.insert(1, ag.div(weighted, ag.add(before, after)))
        if order == 2:
            for end, near, far in ((0, 0, 1), (-1, -1, -2)):
                bend = ag.div(
                    ag.sub(at(rises, near), at(rises, far)), ag.add(at(gaps, near), at(gaps, far))
                )
                parts[end] = ag.add(at(rises, near), ag.mul(bend, at(gaps, near)))
    return ag.cat(parts, place)


OPERATORS: Final = (
    composite(gradient, ("input",), method=False),
    composite(std_mean, ("x",)),
    composite(var_mean, ("x",)),
    composite(aminmax, ("input",)),
    composite(dist, ("input", "other")),
    composite(renorm, ("input",)),
    composite(trapezoid, ("y", "x"), method=False),
    composite(trapz, ("y", "x"), method=False),
    composite(cumulative_trapezoid, ("y", "x"), method=False),
)
