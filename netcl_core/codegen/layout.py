"""Iteration spaces: broadcasting of any rank, with adjacent dimensions merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from netcl_core.errors import ShapeError, message

Shape: TypeAlias = tuple[int, ...]
#: Other sizes for sizes above 1.
Sizes: TypeAlias = Mapping[int, int]


def renamed(shape: Shape, sizes: Sizes) -> Shape:
    """A shape with its sizes replaced by others; those without another stay."""
    return tuple([sizes.get(size, size) for size in shape])


def broadcast(shapes: Sequence[Shape], who: str) -> Shape:
    """The common shape by NumPy's rule; raises ShapeError that names op and shapes."""
    ndim = max((len(shape) for shape in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, size in enumerate(shape, start=ndim - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    given = " and ".join(str(each) for each in shapes)
                    raise ShapeError(
                        message(
                            who,
                            f"shapes {given} do not broadcast",
                            "sizes that are equal or 1, aligned at the last dimension",
                            "Reshape one of the operands",
                        )
                    )
                result[axis] = size
    return tuple(result)


@final
class Layout(NamedTuple):
    """How a kernel walks `rows` x `length` elements and where each input stands.

    `kinds` has a word per input: `full` (as the output), `one` (a single element),
    `rows` (contiguous within a row) or `splat` (one element per row); the last two
    have strides over the outer dimensions `dims`.
    """

    length: int
    dims: Shape
    kinds: tuple[str, ...]
    strides: tuple[Shape, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.dims)

    @property
    def key(self) -> tuple[int, tuple[str, ...]]:
        """What of the layout the kernel's source depends on; sizes are arguments."""
        return len(self.dims), self.kinds


def _strides(shape: Shape, out: Shape) -> list[int]:
    strides = [0] * len(out)
    step = 1
    for axis in range(1, len(shape) + 1):
        if shape[-axis] != 1:
            strides[-axis] = step
        step *= shape[-axis]
    return strides


def collapse(shapes: Sequence[Shape], out: Shape) -> Layout:
    """Merge the dimensions of a broadcast into as few as possible."""
    total = math.prod(out)
    if shapes.count(out) == len(shapes):  # the usual case, without a detour
        return Layout(total, (), ("full",) * len(shapes), ((),) * len(shapes))
    table = [_strides(shape, out) for shape in shapes]
    dims: list[int] = []
    columns: list[list[int]] = []
    for axis, size in enumerate(out):
        if size == 1:
            continue
        column = [strides[axis] for strides in table]
        if dims and all(
            before == now * size for before, now in zip(columns[-1], column, strict=True)
        ):
            dims[-1] *= size
            columns[-1] = column
        else:
            dims.append(size)
            columns.append(column)
    if not dims:
        return Layout(total, (), ("full",) * len(table), ((),) * len(table))
    outer = tuple(dims[:-1])
    strides = tuple(tuple(column[i] for column in columns[:-1]) for i in range(len(table)))
    kinds = tuple(_kind(math.prod(shape), total, columns[-1][i]) for i, shape in enumerate(shapes))
    return Layout(dims[-1], outer, kinds, strides)


def _kind(size: int, total: int, inner: int) -> str:
    if size == total:
        return "full"
    if size == 1:
        return "one"
    return "rows" if inner else "splat"
