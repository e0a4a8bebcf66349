"""Copies of a tensor in which a part has been replaced: rows, slices, diagonals, strided parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis, near, whole


def _written(who: str, x: Any, src: Any, places: Any) -> Any:
    """x with src at flat places of it, where src has their shape."""
    source = ag.as_operand(src, x.device)
    if source.shape != places.shape:
        given = f"src of shape {source.shape} for a part of shape {places.shape}"
        raise ShapeError(message(who, given, "one shape"))
    if not source.size:
        return ag.clone(x)
    index = nc.tensor(np.ascontiguousarray(places).reshape(-1), device=x.device)
    flat = ag.scatter(ag.reshape(x, (-1,)), 0, index, ag.reshape(source.astype(x.dtype), (-1,)))
    return ag.reshape(flat, x.shape)


def _grid(x: Any) -> Any:
    return np.arange(x.size, dtype=np.int64).reshape(x.shape)


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """`input` with `src` in the place of `input.select(dim, index)`.

    >>> ag.select_scatter(nc.zeros(2, 2), nc.tensor([1.0, 2.0]), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 2.0]]

    Raises:
        IndexError: An index is out of range.
    """
    x = ag.as_operand(input)
    place, number = axis("select_scatter", dim, x.ndim), whole(index)
    size = x.shape[place] if x.ndim else 0
    if number is None or not -size <= number < size:
        raise IndexError(message("select_scatter", f"index={index!r}", f"-{size} to {size - 1}"))
    return _written("select_scatter", x, src, _grid(x).take(number, place))


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """`input` with `src` in the place of the slice `start:end:step` along a dimension.

    >>> ag.slice_scatter(nc.zeros(4), nc.ones(2), start=1, end=3).tolist()
    [0.0, 1.0, 1.0, 0.0]

    Raises:
        AttributeValueError: Unless given at least 1, and a dimension.
    """
    x = ag.as_operand(input)
    place = axis("slice_scatter", dim, x.ndim)
    if whole(step) is None or step < 1 or not x.ndim:
        given = f"step={step!r} of shape {x.shape}"
        raise AttributeValueError(message("slice_scatter", given, "at least 1, and a dimension"))
    part = _grid(x)[(*[slice(None)] * place, slice(start, end, step))]
    return _written("slice_scatter", x, src, part)


def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """`input` with `src` in the place of `input.diagonal(offset, dim1, dim2)`.

    >>> ag.diagonal_scatter(nc.zeros(2, 2), nc.tensor([1.0, 2.0])).tolist()
    [[1.0, 0.0], [0.0, 2.0]]

    Raises:
        AttributeValueError: Unless given two dimensions, and an int.
    """
    x = ag.as_operand(input)
    first, second = (axis("diagonal_scatter", dim, x.ndim) for dim in (dim1, dim2))
    if x.ndim < 2 or first == second or whole(offset) is None:
        given = f"shape {x.shape}, offset={offset!r}, dims {dim1}, {dim2}"
        raise AttributeValueError(message("diagonal_scatter", given, "two dimensions, and an int"))
    return _written(
        "diagonal_scatter", x, src, _grid(x).diagonal(near(offset, x.size), first, second)
    )


def as_strided_scatter(
    input: Any, src: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int = 0
) -> Any:
    """`input` with `src` in the place of `input.as_strided(size, stride, storage_offset)`.

    `src` has the shape `size`.

    >>> ag.as_strided_scatter(nc.zeros(2, 3), nc.ones(2), (2,), (3,)).tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    x = ag.as_operand(input)
    numbers = Tensor.from_host(_grid(x).reshape(-1), "numpy")
    part = ag.as_strided(numbers, size, stride, storage_offset or 0).numpy()
    return _written("as_strided_scatter", x, src, part)


OPERATORS: Final = (
    composite(select_scatter, ("input", "src")),
    composite(slice_scatter, ("input", "src")),
    composite(diagonal_scatter, ("input", "src")),
    composite(as_strided_scatter, ("input", "src")),
)
