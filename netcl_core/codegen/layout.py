"""Iteration spaces: broadcasting of any rank, views, with adjacent dimensions merged."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias, final

from netcl_core.errors import ShapeError, message

Shape: TypeAlias = tuple[int, ...]
#: The strides of each input that is a view; None: it lies in C order from the first element on.
Strides: TypeAlias = tuple[Shape | None, ...]
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

    `kinds` has a word per input: `full` (as the iteration space), `one` (a single element),
    `rows` (contiguous within a row) or `splat` (one element per row); the last two
    have strides over the outer dimensions `dims`. Views are `rows+`, `splat+` or `apart+`
    (any stride within a row, which follows the outer ones), and begin at an offset.
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


def _strides(shape: Shape, own: Shape | None, out: Shape) -> list[int]:
    strides = [0] * len(out)
    step = 1
    for axis in range(1, len(shape) + 1):
        if shape[-axis] != 1:
            strides[-axis] = step if own is None else own[-axis]
        step *= shape[-axis]
    return strides


def collapse(shapes: Sequence[Shape], out: Shape, views: Strides = ()) -> Layout:
    """Merge the dimensions of a broadcast into as few as possible."""
    total = math.prod(out)
    if not views and shapes.count(out) == len(shapes):  # the usual case, without a detour
        return Layout(total, (), ("full",) * len(shapes), ((),) * len(shapes))
    views = views or (None,) * len(shapes)
    table = [_strides(shape, own, out) for shape, own in zip(shapes, views, strict=True)]
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
        dims, columns = [total], [[1] * len(table)]
    outer = tuple(dims[:-1])
    kinds = tuple(
        _kind(math.prod(shape), total, columns[-1][i])
        if views[i] is None
        else _kind_of_view(columns[-1][i])
        for i, shape in enumerate(shapes)
    )
    shown = [columns if kind == "apart+" else columns[:-1] for kind in kinds]
    strides = tuple(tuple(column[i] for column in own) for i, own in enumerate(shown))
    return Layout(dims[-1], outer, kinds, strides)


def _kind_of_view(inner: int) -> str:
    return {0: "splat+", 1: "rows+"}.get(inner, "apart+")


def _kind(size: int, total: int, inner: int) -> str:
    if size == total:
        return "full"
    if size == 1:
        return "one"
    return "rows" if inner else "splat"
