"""Geometry: where the elements of a view lie in the memory that it shares.

A tensor that is no view has all elements of its buffer in C order, and no Geometry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, final

Shape: TypeAlias = tuple[int, ...]
#: Of each array that the host works on, its shape and its NumPy dtype.
Forms: TypeAlias = Sequence[tuple[Shape, Any]]


@final
class Geometry(NamedTuple):
    """Shape, strides and offset of a view, counted in elements.

    >>> column = ag.Geometry((2,), (3,), 1)  # of a matrix (2, 3)
    >>> column.size, column.is_contiguous, column.end
    (2, False, 5)

    `strides` may be 0 (an expanded dimension) or negative; `offset` is the place of the first
    element in the buffer.

    Args:
        shape: The sizes.
    """

    shape: Shape
    strides: Shape
    offset: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie next to each other in C order, wherever the first one is."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return not self.size
            step *= size
        return True

    @property
    def layout(self) -> Geometry | None:
        """The same, counted from the first element; None: they lie in C order, without gaps."""
        return None if self.is_contiguous else self._replace(offset=0)

    @property
    def end(self) -> int:
        """One more than the place of the last element in memory."""
        if not self.size:
            return self.offset
        steps = zip(self.shape, self.strides, strict=True)
        return self.offset + 1 + sum((n - 1) * stride for n, stride in steps if stride > 0)

    @property
    def begin(self) -> int:
        """The place of the first element in memory."""
        steps = zip(self.shape, self.strides, strict=True)
        return self.offset + sum((n - 1) * stride for n, stride in steps if stride < 0)

    @property
    def overlaps_itself(self) -> bool:
        """Whether two elements may lie at one place, as in what `expand` gives."""
        reach = 0
        steps = zip(self.shape, map(abs, self.strides), strict=True)
        for stride, size in sorted((stride, n) for n, stride in steps if n > 1):
            if stride <= reach:
                return bool(self.size)
            reach += stride * (size - 1)
        return False

    @property
    def once(self) -> Geometry:
        """The same without repetitions: an expanded dimension has size 1."""
        pairs = zip(self.shape, self.strides, strict=True)
        return self._replace(shape=tuple([size if stride else 1 for size, stride in pairs]))

    def covers(self, size: int) -> bool:
        """Whether a buffer of so many elements has none that is not among these."""
        return self.once.size == size and not self.once.overlaps_itself

    def meets(self, other: Geometry) -> bool:
        """Whether elements of two views of one buffer may lie at one place."""
        return bool(self.size and other.size) and (
            self.begin < other.end and other.begin < self.end
        )

    def reshaped(self, shape: Shape) -> Geometry | None:
        """The same elements in another shape of as many; None: that takes a copy.

        >>> ag.Geometry((2, 3), (3, 1)).reshaped((3, 2))
        Geometry(shape=(3, 2), strides=(2, 1), offset=0)
        >>> ag.Geometry((3, 2), (1, 3)).reshaped((6,)) is None
        True
        """
        if not self.size:
            strides = self.strides if shape == self.shape else contiguous_strides(shape)
            return Geometry(shape, strides, self.offset)
        new_strides = [1] * len(shape)
        target = len(shape) - 1
        step = self.strides[-1] if self.strides else 1  # of the run that is looked at
        run = covered = 1
        for axis in range(len(self.shape) - 1, -1, -1):
            run *= self.shape[axis]
            if axis and (self.shape[axis - 1] == 1 or self.strides[axis - 1] == run * step):
                continue  # the dimension before belongs to the run
            while target >= 0 and (covered < run or shape[target] == 1):
                new_strides[target] = covered * step
                covered *= shape[target]
                target -= 1
            if covered != run:
                return None
            step, run, covered = self.strides[axis - 1], 1, 1
        return Geometry(shape, tuple(new_strides), self.offset)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """The strides of a tensor in C order; those of empty tensors as PyTorch gives them.

    >>> contiguous_strides((2, 0, 3)), contiguous_strides(())
    ((3, 3, 1), ())
    """
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return tuple(strides)


def dense(shape: Shape) -> Geometry:
    """The geometry of a tensor that is no view."""
    return Geometry(shape, contiguous_strides(shape))
