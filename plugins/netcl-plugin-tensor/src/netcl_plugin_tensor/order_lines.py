"""What sorted lines say: quantiles and modes."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import one_of
from netcl_plugin_tensor.order_statistics import line_of
from netcl_plugin_tensor.selecting import GATHER

_Mode = namedtuple("_Mode", ("values", "indices"))


def msort(input: Any) -> Any:
    """The tensor in order along its first axis: `sort(x, 0).values`.

    For tensors of any shape with an axis.

    >>> ag.msort([3.0, 1.0, 2.0]).tolist()
    [1.0, 2.0, 3.0]
    """
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
    """The quantile of what is not NaN; arguments as of `quantile`.

    >>> ag.nanquantile(nc.tensor([1.0, float("nan"), 3.0]), 0.5).item()
    2.0
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)


def _quantile(who: str, input: Any, q: Any, dim: Any, keepdim: bool, how: str) -> Any:
    one_of(who, "interpolation", how, ("linear", "lower", "higher", "midpoint", "nearest"))
    given = ag.as_operand(input)
    if given.dtype not in ("float32", "float64"):
        raise DtypeError(message(who, f"a {given.dtype} tensor", "float32 or float64"))
    flat = ag.reshape(given, (-1,)) if dim is None else given
    x, place, size = line_of(who, ag.reshape(flat, (1,)) if not flat.ndim else flat, dim or 0)
    levels = q if isinstance(q, nc.Tensor) else nc.tensor(q, x.device, x.dtype)
    levels = levels.to(x.device, x.dtype)
    if not isinstance(q, Tensor) and not all(0 <= level <= 1 for level in np.ravel(q)):
        raise AttributeValueError(message(who, f"q={q!r}", "numbers from 0 to 1"))
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
        quantiles = GATHER(lines, -1, rounded.astype("int64"))
    else:
        low = ag.floor(ranks)
        below = GATHER(lines, -1, low.astype("int64"))
        above = GATHER(lines, -1, ag.ceil(ranks).astype("int64"))
        quantiles = ag.lerp(below, above, 0.5 if how == "midpoint" else ag.sub(ranks, low))
        if how == "midpoint":
            quantiles = ag.where(ag.eq(low, ranks), below, quantiles)
    quantiles = ag.movedim(quantiles, -1, 0)
    if keepdim and given.ndim:
        quantiles = ag.unsqueeze(quantiles, place + 1)
        if dim is None:
            quantiles = ag.reshape(quantiles, (quantiles.shape[0], *[1] * given.ndim))
    elif not given.ndim:
        quantiles = ag.reshape(quantiles, (-1,))
    return quantiles if levels.ndim else ag.squeeze(quantiles, 0)


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """A named tuple of the most frequent `values` along an axis, and the `indices` of their last.

    Of values that are as frequent the smallest is taken.

    >>> value, place = ag.mode([2, 1, 2])
    >>> value.item()
    2
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
    lengths = ag.sub(steps, ag.cummax(starts, place).values)
    best = ag.argmax(lengths, place, True)
    modes = [GATHER(lines, place, best) for lines in ranked]
    return _Mode(*(modes if keepdim else [ag.squeeze(lines, place) for lines in modes]))


OPERATORS: Final = (
    composite(msort, ("input",)),
    composite(quantile, ("input",)),
    composite(nanquantile, ("input",)),
    composite(mode, ("input",)),
)
