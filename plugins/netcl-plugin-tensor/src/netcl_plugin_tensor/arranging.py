"""Elements in another order or several times: grids, repeats, diagonals, pixels as channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core as nc
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
from netcl_plugin_tensor.axes import axis, shape_of, whole


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Vectors spread over a grid, one dimension each: for `a, b` the coordinates of all pairs.

    >>> rows, columns = ag.meshgrid(nc.tensor([1, 2]), nc.tensor([3, 4, 5]), indexing="ij")
    >>> rows.shape, columns[0].tolist()
    ((2, 3), [3, 4, 5])

    Args:
        tensors: Vectors or numbers of one dtype, one by one or in a list.
        indexing: 'ij' (or None), rows for the first vector, or 'xy', columns for it.

    Raises:
        ArgumentError: Unless given one list, or tensors.
        AttributeValueError: Unless given 'ij' or 'xy'.
    """
    listed = len(tensors) == 1 and isinstance(tensors[0], Sequence)
    if not listed and any(isinstance(x, Sequence) for x in tensors):
        raise ArgumentError(message("meshgrid", "a list among others", "one list, or tensors"))
    given = [ag.as_operand(x) for x in (tensors[0] if listed else tensors)]
    if not given:
        raise ArgumentError(message("meshgrid", "no tensors", "at least one"))
    if indexing not in (None, "ij", "xy"):
        raise AttributeValueError(message("meshgrid", f"indexing={indexing!r}", "'ij' or 'xy'"))
    _check_alike(given)
    turned = indexing == "xy" and len(given) > 1
    order = [1, 0, *range(2, len(given))] if turned else list(range(len(given)))
    sizes = [given[i].size for i in order]
    return tuple(_spread(x, order.index(i), sizes) for i, x in enumerate(given))


def _check_alike(given: Sequence[Any]) -> None:
    first = given[0]
    for x in given:
        if x.ndim > 1:
            raise ShapeError(message("meshgrid", f"shape {x.shape}", "vectors and numbers"))
        if x.dtype != first.dtype:
            raise DtypeError(message("meshgrid", f"{first.dtype} and {x.dtype}", "one dtype"))
        if x.device is not first.device:
            places = f"tensors on {first.device.name} and {x.device.name}"
            raise DeviceError(message("meshgrid", places, "one device", "Move one with to()"))


def _spread(x: Any, place: int, sizes: Sequence[int]) -> Any:
    shape = [size if i == place else 1 for i, size in enumerate(sizes)]
    return ag.expand(ag.reshape(x, shape), sizes)


def repeat_interleave(input: Any, repeats: Any, dim: int | None = None) -> Any:
    """Each element, or each part along an axis, so often one after the other.

    Raises AttributeValueError unless given such numbers.

    >>> ag.repeat_interleave(nc.tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]

    Args:
        input: A tensor of any dtype.
        repeats: How often, 0 or more: an int, or an int tensor with one number for each part, which
            the host reads.
        dim: The axis; None: of the flattened tensor.
    """
    x = ag.reshape(input, (-1,)) if dim is None else input
    shape = shape_of(x)
    place = axis("repeat_interleave", 0 if dim is None else dim, len(shape))
    if not shape:
        x, shape = ag.reshape(x, (1,)), (1,)
    times = None if isinstance(repeats, bool) or shape_of(repeats) else whole(repeats)
    if times is None:
        return _picked(x, repeats, place)
    if times < 0:
        raise _wrong(repeats)
    lead, rest = shape[: place + 1], shape[place + 1 :]
    wide = ag.expand(ag.reshape(x, (*lead, 1, *rest)), (*lead, times, *rest))
    if 1 in (times, lead[-1]):
        wide = ag.clone(wide)  # whose other shape would be a view of the operand
    return ag.reshape(wide, (*lead[:-1], lead[-1] * times, *rest))


def _picked(x: Any, repeats: Any, place: int) -> Any:
    size = shape_of(x)[place]
    if not isinstance(repeats, Tensor) or repeats.ndim > 1 or "int" not in repeats.dtype:
        raise _wrong(repeats)
    counts = np.broadcast_to(repeats.to_host(), (size,)) if repeats.size == 1 else repeats.to_host()
    if counts.shape != (size,) or (counts < 0).any():
        raise _wrong(repeats)
    index = nc.tensor(np.repeat(np.arange(size), counts), device=x.device)
    return ag.index_select(x, place, index)


def _wrong(repeats: Any) -> AttributeValueError:
    given = f"a tensor of shape {repeats.shape}" if isinstance(repeats, Tensor) else f"{repeats!r}"
    wanted = "an int, or an int tensor with one number for each part, of 0 or more"
    return AttributeValueError(message("repeat_interleave", f"repeats: {given}", wanted))


def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector.

    >>> ag.diag([1.0, 2.0]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]

    Args:
        input: A tensor with one or two dimensions.
        diagonal: Which: 0 the main one, above it from 1 on, below it from -1 on.

    Raises:
        AttributeValueError: Unless given an int.
        ShapeError: Unless given one dimension or two.
    """
    shape, k = shape_of(input), whole(diagonal)
    if k is None or abs(k) > 1 << 30:
        raise AttributeValueError(message("diag", f"diagonal={diagonal!r}", "an int"))
    if len(shape) == 2:
        return _diagonal(input, shape, k)
    if len(shape) != 1:
        raise ShapeError(message("diag", f"shape {shape}", "one dimension or two"))
    row = ag.pad(input, (max(k, 0), max(-k, 0)))
    places = nc.arange(row.shape[0], device=row.device)
    here = ag.eq(ag.sub(places, ag.reshape(places, (-1, 1))), k)
    return ag.where(here, row, False if row.dtype == "bool" else 0)


def _diagonal(x: Any, shape: Sequence[int], k: int) -> Any:
    rows, columns = shape
    count = max(0, min(rows - max(-k, 0), columns - max(k, 0)))
    start = max(k, 0) + max(-k, 0) * columns
    ends = slice(start, start + count * (columns + 1), columns + 1) if count else slice(0, 0)
    return ag.getitem(ag.reshape(x, (-1,)), ends)


def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal.

    >>> ag.trace([[1.0, 2.0], [3.0, 4.0]]).item()
    5.0

    Raises:
        ShapeError: Unless given a matrix.
    """
    shape = shape_of(input)
    if len(shape) != 2:
        raise ShapeError(message("trace", f"shape {shape}", "a matrix"))
    return ag.sum(ag.diag(input))


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(..., C * r^2, H, W) to (..., C, H * r, W * r): channels as blocks of r x r pixels.

    Raises ShapeError for other shapes.

    (Shi et al. 2016, arXiv:1609.05158)

    >>> ag.pixel_shuffle(nc.rand(1, 12, 4, 4), 2).shape
    (1, 3, 8, 8)

    Args:
        upscale_factor: How many times larger height and width become.
    """
    shape, r = shape_of(input), _factor("pixel_shuffle", "upscale_factor", upscale_factor)
    if len(shape) < 3 or shape[-3] % (r * r):
        raise _unfit("pixel_shuffle", shape, r, "(..., C, H, W) with C a multiple of its square")
    *lead, channels, height, width = shape
    n, few = len(lead), channels // (r * r)
    parts = ag.reshape(input, (*lead, few, r, r, height, width))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return ag.reshape(ag.permute(parts, order), (*lead, few, height * r, width * r))


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(..., C, H * r, W * r) to (..., C * r^2, H, W): what `pixel_shuffle` does, undone.

    Raises ShapeError for other shapes.

    >>> ag.pixel_unshuffle(nc.rand(1, 3, 8, 8), 2).shape
    (1, 12, 4, 4)

    Args:
        downscale_factor: How many times smaller height and width become.
    """
    shape, r = shape_of(input), _factor("pixel_unshuffle", "downscale_factor", downscale_factor)
    if len(shape) < 3 or shape[-2] % r or shape[-1] % r:
        raise _unfit("pixel_unshuffle", shape, r, "(..., C, H, W) with H and W multiples of it")
    *lead, channels, height, width = shape
    n = len(lead)
    parts = ag.reshape(input, (*lead, channels, height // r, r, width // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    sizes = (*lead, channels * r * r, height // r, width // r)
    return ag.reshape(ag.permute(parts, order), sizes)


def _factor(who: str, name: str, given: Any) -> int:
    factor = whole(given)
    if factor is None or not 1 <= factor <= 1 << 15:
        raise AttributeValueError(message(who, f"{name}={given!r}", "a positive factor"))
    return factor


def _unfit(who: str, shape: Sequence[int], factor: int, expected: str) -> ShapeError:
    given = f"x of shape {tuple(shape)} with a factor of {factor}"
    return ShapeError(message(who, given, expected))


OPERATORS = (
    composite(meshgrid, method=False),
    composite(repeat_interleave, ("input",)),
    composite(diag, ("input",)),
    composite(trace, ("input",)),
    composite(pixel_shuffle, ("input",), method=False),
    composite(pixel_unshuffle, ("input",), method=False),
)
