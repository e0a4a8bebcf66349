"""Results whose size depends on the data, which the host has to ask for: unique and bincount."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor, widened
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, whole
from netcl_plugin_tensor.compacting import PARTS, is_on_host, true_places
from netcl_plugin_tensor.elements import PUT
from netcl_plugin_tensor.selecting import ADD_AT_INDEX

_INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")
#: More numbers than any memory counts are a mistake.
_MOST: Final = 1 << 31


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The different elements in order, or the different slices along an axis.

    >>> ag.unique([3, 1, 3]).tolist()
    [1, 3]

    Args:
        input: A tensor of any dtype; each NaN differs from all others.
        sorted: Accepted as in PyTorch; they are always in order.
        return_inverse: Whether to give, too, the place of each element among them (int64).
        return_counts: Whether to give, too, how often each occurs (int64).
        dim: The axis of the slices; None: of single elements.

    Returns the values alone, or a tuple. The host reads the data, or on a GPU how many there are,
    so that this waits for the device and ends a compiled region; no gradient flows through it.

    Raises:
        ShapeError: Unless given dim=None.
    """
    x = ag.as_operand(input)
    if dim is None and x.size and not is_on_host(x):
        return _unique(ag.reshape(x.detach(), (-1,)), x.shape, return_inverse, return_counts)
    place = None if dim is None else axis("unique", dim, x.ndim)
    if place is not None and not x.ndim:
        raise ShapeError(message("unique", "dim of a tensor without dimensions", "dim=None"))
    array = x.to_host()
    uniques = np.unique(widened(array), return_inverse=True, return_counts=True, axis=place,
                      equal_nan=False)  # fmt: skip
    values = Tensor.from_host(uniques[0].astype(array.dtype), x.device)
    shape = array.shape if place is None else (array.shape[place],)
    parts = [values]
    parts += [_counted(uniques[1].reshape(shape), x)] if return_inverse else []
    parts += [_counted(uniques[2], x)] if return_counts else []
    return values if len(parts) == 1 else tuple(parts)


def _unique(x: Any, shape: tuple[int, ...], inverse: bool, counts: bool) -> Any:
    """`unique` of a vector on its device: where sorted values change, there is another one."""
    narrow, moved = _narrowed(x)
    ordered = ag.sort(narrow)
    changes = ag.ne(ordered.values[1:], ordered.values[:-1])
    starts = ag.cat([Tensor.ones((1,), "bool", x.device), changes])
    places = true_places(starts)
    values = ag.index_select(ordered.values, 0, places)
    parts = [values if narrow is x else ag.add(values.astype(x.dtype), moved)]
    if inverse:
        number = ag.sub(ag.cumsum(starts, 0), 1)
        parts.append(ag.reshape(PUT(number, ordered.indices, number), shape))
    if counts:
        ends = ag.cat([places[1:], Tensor.full((1,), x.size, "int64", x.device)])
        parts.append(ag.sub(ends, places))
    return parts[0] if len(parts) == 1 else tuple(parts)


def _narrowed(x: Any) -> tuple[Any, int]:
    """Integers moved into a dtype of fewer bits if one holds their range, and by how much.

    A sort takes a pass for some bits.
    """
    width = DTYPES[x.dtype].itemsize
    if x.dtype not in ("int32", "int64"):
        return x, 0
    low, high = x.value.int_range()
    for dtype in ("int16", "int32"):
        least = int(np.iinfo(dtype).min)
        by, fits = low - least, high - low < 2 ** (8 * DTYPES[dtype].itemsize)
        if DTYPES[dtype].itemsize < width and fits and by <= np.iinfo(x.dtype).max:
            return ag.sub(x, by).astype(dtype), by
    return x, 0


def _counted(array: Any, x: Any) -> Tensor:
    return Tensor.from_host(array.astype(np.int64), x.device)


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each of the numbers 0, 1, ... occurs, or the sums of their weights.

    >>> ag.bincount([0, 1, 1, 3]).tolist()
    [1, 2, 0, 1]

    Args:
        input: Integers of at least 0, a vector.
        weights: A number for each of them; None: 1. They are summed in float32 if that is their
            dtype, else in float64 where the device has it.
        minlength: How many results there are at least.

    Returns int64, or the weights' sums. The host reads the largest number, so that this waits for
    the device and ends a compiled region; no gradient flows through it.

    Raises:
        AttributeValueError: Unless given 0 or more.
    """
    x = ag.as_operand(input)
    if x.dtype not in _INTEGERS or x.ndim != 1:
        given = f"a {x.dtype} tensor of shape {x.shape}"
        error = DtypeError if x.dtype not in _INTEGERS else ShapeError
        raise error(message("bincount", given, "a vector of integers"))
    least = whole(minlength)
    if least is None or not 0 <= least < _MOST:
        raise AttributeValueError(message("bincount", f"minlength={minlength!r}", "0 or more"))
    low, high = x.value.int_range() if x.size else (0, -1)
    if low < 0 or high >= _MOST:
        wrong = low if low < 0 else high
        expected = f"0 to {_MOST - 1}"
        raise AttributeValueError(message("bincount", f"the number {wrong}", expected))
    given = _weights(x, weights)
    return ADD_AT_INDEX(given, x, 0, "bincount", True, False, (max(least, high + 1),))


def _weights(x: Any, weights: Any) -> Any:
    """What is added up for each number, without a gradient."""
    if weights is None:
        return Tensor.ones(x.shape, "int64", x.device)
    weights_given = ag.as_operand(weights, x.device).detach()
    if weights_given.shape != x.shape:
        given = f"weights of shape {weights_given.shape} for {x.shape}"
        raise ShapeError(message("bincount", given, "as many as numbers"))
    exact = weights_given.dtype != "float32" and x.device.supports_fp64
    return weights_given.astype("float64" if exact else "float32")


OPERATORS = (composite(unique, parts=(*PARTS, PUT)), composite(bincount, parts=(ADD_AT_INDEX,)))
