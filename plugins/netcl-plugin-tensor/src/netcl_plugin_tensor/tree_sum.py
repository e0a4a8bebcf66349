"""The form of a sum on the NumPy path: a tree along any axes, as kernels have it.

NumPy adds in a tree along the last axis only, and one after the other along any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from netcl_core.inspect.data import Array

#: So many terms are added one after the other, then their sums, and so on.
_BLOCK: Final = 16


def tree_sum(array: Array, axes: Sequence[int], dtype: Any, keepdims: bool = False) -> Array:
    """The sum of an array over non-negative axes, computed in a dtype.

    >>> float(ag.tree_sum(np.full((2**20, 1), 0.1, np.float32), (0, 1), np.float32))
    104857...
    """
    shape, partial = list(array.shape), array
    for first, end in _runs(axes):
        outer, inner = math.prod(shape[:first]), math.prod(shape[end:])
        partial = _sum_lines(partial.reshape(outer, math.prod(shape[first:end]), inner), dtype)
        shape[first:end] = [1] * (end - first)
    if not keepdims:
        shape = [size for axis, size in enumerate(shape) if axis not in axes]
    return partial.astype(dtype, copy=False).reshape(shape)


def _runs(axes: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of neighbouring axes: where each begins and ends.

    The first come first: what is left for the last one, where NumPy is slow at short lines, is
    little then.
    """
    runs: list[tuple[int, int]] = []
    for axis in sorted(axes):
        if runs and runs[-1][1] == axis:
            runs[-1] = runs[-1][0], axis + 1
        else:
            runs.append((axis, axis + 1))
    return runs


def _sum_lines(lines: Array, dtype: Any) -> Array:
    """(outer, n, inner) summed to (outer, inner).

    A block's terms stand far apart, so that NumPy adds long contiguous rows.
    """
    outer, n, inner = lines.shape
    if inner == 1:
        lines = lines.reshape(outer, n).astype(dtype, copy=False)
        return np.asarray(np.sum(lines, axis=1))
    while n > _BLOCK:
        each = n // _BLOCK
        blocks = lines[:, : each * _BLOCK].reshape(outer, _BLOCK, each * inner)
        sums = np.sum(blocks, axis=1, dtype=dtype).reshape(outer, each, inner)
        if n % _BLOCK:
            sums[:, :1] += np.sum(lines[:, each * _BLOCK :], axis=1, keepdims=True, dtype=dtype)
        lines, n = sums, each
    return np.asarray(np.sum(lines, axis=1, dtype=dtype))
