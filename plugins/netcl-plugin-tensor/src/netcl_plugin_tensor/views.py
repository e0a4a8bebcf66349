"""Views: which elements of a contiguous tensor are copied, and how those of two go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from netcl_core import DTYPES
from netcl_core.autograd import Geometry, Request

#: What elements of so many bytes are copied as.
BITS: Final = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}


class Dim(NamedTuple):
    """A dimension of a copy: its size, and from one element to the next in source and target."""

    size: int
    source: int
    target: int


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    steps = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        steps[axis - 1] = steps[axis] * shape[axis]
    return tuple(steps)


def whole(shape: Sequence[int]) -> Geometry:
    """All elements of a contiguous tensor in order."""
    return Geometry(tuple(shape), strides_of(shape), 0)


def joined(source: Geometry, target: Geometry) -> tuple[Dim, ...]:
    """The dimensions of a copy between views of one shape, as few as possible, at least one."""
    dims: list[Dim] = []
    for size, first, second in zip(source.shape, source.strides, target.strides, strict=True):
        if size == 1:
            continue
        if dims and dims[-1][1:] == (first * size, second * size):
            dims[-1] = Dim(dims[-1].size * size, first, second)
        else:
            dims.append(Dim(size, first, second))
    return tuple(dims) or (Dim(1, 1, 1),)


def merged(view: Geometry) -> Geometry:
    """The same elements in the same order with as few dimensions as possible."""
    dims = joined(view, view)
    return Geometry(tuple(dim.size for dim in dims), tuple(dim.source for dim in dims), view.offset)


def is_whole(view: Geometry) -> bool:
    """Whether a view is its tensor from the first element on, in order."""
    return merged(view) == Geometry((math.prod(view.shape),), (1,), 0)


def other_than_whole(source: Geometry, target: Geometry) -> Geometry:
    """Of two views of which one is whole the other, merged."""
    return merged(source if is_whole(target) else target)


def class_of(request: Request, view: Geometry) -> str:
    """Which copies between a whole tensor and a view share a record of tuned settings."""
    bits = BITS[DTYPES[request.output.dtype].itemsize]
    sizes, steps = "x".join(map(_rounded, view.shape)), ",".join(map(_rounded, view.strides))
    return f"{bits}[{sizes}] by {steps}"


def _rounded(number: int) -> str:
    """A size or stride, away from 0 to the next power of two."""
    power = 1 << (abs(number) - 1).bit_length() if number else 0
    return str(-power if number < 0 else power)
