"""Finite differences along a line: the bounds of a slope, left and right of a point apart.

Both sides are extrapolated to step 0 from seven steps (Richardson 1911; the step with the
smallest estimated error is taken, as in Ridders 1982, Adv. Eng. Software 4(2)). Where the sides
differ there is a kink, and any slope between them is one of the function's (Clarke 1975).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from netcl_core import DTYPES
from netcl_core.inspect.data import Array

#: How many steps, the first one, and how many times smaller the next is; by what f computes in.
_COUNT: Final = 7
_GRIDS: Final = {
    "float64": (2.0**-10, 8.0),
    "float32": (2.0**-2, 2.0),
    "float16": (0.5, 1.5),
    "bfloat16": (0.5, 1.5),
}
#: Errors are estimated, not bounded.
_SAFETY: Final = 4.0


@final
@dataclass(frozen=True, slots=True)
class Slopes:
    """Of each element: the bounds of its slope; infinite where it has none (a step, an edge).

    `bend` is how much the slope changes from a step to the next, by the slope's own size:
    `|f''| / |f'|`, at most `most`. `middle` is the value at the point.
    """

    low: Array
    high: Array
    bend: Array
    middle: Array

    @property
    def size(self) -> Array:
        """The largest of the slopes by its amount."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def slope(f: Callable[[float], Array], step: float) -> Array:
    """The slope at 0 by a central difference of fourth order, without any bounds."""
    near, near_left, far, far_left = (f(k * step).astype(np.float64) for k in (1, -1, 2, -2))
    difference: Array = (8 * (near - near_left) - (far - far_left)) / (12 * step)
    return difference


def slopes(f: Callable[[float], Array], most: float) -> Slopes:
    """The slopes of an array of functions of one variable at 0.

    Args:
        f: `t -> array`, evaluated at 0 and at seven steps to both sides.
        most: The largest `bend` to tell of.
    """
    middle = f(0.0)
    unit = float(DTYPES[middle.dtype.name].limits.eps)
    start, factor = _GRIDS[middle.dtype.name]
    middle = middle.astype(np.float64)
    steps = (start * factor ** -np.arange(_COUNT)).reshape(-1, *(1,) * middle.ndim)
    right = np.stack([f(step) for step in steps.reshape(-1).tolist()]).astype(np.float64)
    left = np.stack([f(-step) for step in steps.reshape(-1).tolist()]).astype(np.float64)
    rounding = 4 * unit * (np.abs(middle) + np.maximum(np.abs(right), np.abs(left))) / steps
    up = _limit((right - middle) / steps, rounding, factor, unit, steps)
    down = _limit((middle - left) / steps, rounding, factor, unit, steps)
    both = _limit((right - left) / (2 * steps), rounding, factor**2, unit, steps)
    low, high = _bounds(up, down, both)
    jump = _jumps(right, middle, rounding, steps) | _jumps(left, middle, rounding, steps)
    unknown = jump | ~np.isfinite(low) | ~np.isfinite(high)
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    bend = _bend(left, middle, right, unit, start, both[0], most)
    return Slopes(low, high, bend, middle)


def _limit(values: Array, rounding: Array, factor: float, unit: float, steps: Array) -> Array:
    """The limits of slopes for ever smaller steps, and their errors."""
    first = (factor * values[1:] - values[:-1]) / (factor - 1)
    second = (factor**2 * first[1:] - first[:-1]) / (factor**2 - 1)
    error = np.abs(first[1:] - first[:-1]) + 2 * rounding[2:]
    error = error + 4 * unit * np.abs(values[2:]) / steps[2:]
    error = np.where(np.isfinite(error), error, np.inf)
    best = error.argmin(axis=0)[None]
    return np.concatenate([np.take_along_axis(second, best, 0), np.take_along_axis(error, best, 0)])


def _bounds(up: Array, down: Array, both: Array) -> tuple[Array, Array]:
    """The limit of the difference to both sides, or all between the sides if they differ."""
    apart = np.abs(up[0] - down[0])
    coarse = up[1] + down[1] > 1e-3 * (np.abs(up[0]) + np.abs(down[0]))
    kink = ~(apart <= _SAFETY * (up[1] + down[1])) | coarse
    tops = [side[0] + _SAFETY * side[1] for side in (up, down, both)]
    bottoms = [side[0] - _SAFETY * side[1] for side in (up, down, both)]
    high = np.where(kink, np.maximum.reduce(tops), tops[2])
    return np.where(kink, np.minimum.reduce(bottoms), bottoms[2]), high


def _jumps(side: Array, middle: Array, rounding: Array, steps: Array) -> Array:
    """Where a side's difference does not become smaller with the step."""
    rise = np.abs(side - middle)
    jumps: Array = (rise[-1] > 4 * rounding[-1] * steps[-1]) & (rise[-1] > 0.5 * rise[0])
    return jumps


def _bend(
    left: Array,
    middle: Array,
    right: Array,
    unit: float,
    step: float,
    slope: Array,
    most: float,
) -> Array:
    """The second difference over the largest step, by the slope."""
    rounding = 8 * unit * np.maximum(np.abs(middle), np.abs(right[0]))
    second = np.maximum(np.abs(right[0] - 2 * middle + left[0]) - rounding, 0) / step**2
    ratio = np.where(second > 0, second / np.abs(slope), 0.0)
    return np.where(np.isfinite(ratio), np.minimum(ratio, most), most)
