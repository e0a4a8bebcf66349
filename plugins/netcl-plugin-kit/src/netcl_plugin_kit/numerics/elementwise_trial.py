"""Gradients of elementwise forwards: every element by itself.

A first look takes four forwards and clears nearly all; what it does not clear is measured
with care.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.inspect.data import Array
from netcl_plugin_kit.numerics.differences import slope, slopes
from netcl_plugin_kit.numerics.gradient_trial import (
    Doubt,
    GradientTrial,
    Rounding,
    hull,
    rounding_of,
    times,
)

#: The step of the first look, and of how many elements the second one takes care at a time.
_STEP: Final = 2.0**-12
_AT_A_TIME: Final = 1 << 15
#: The smallest and the largest slope, and the margin beyond them.
_Bounds: TypeAlias = tuple[Array, Array, Array]


@final
class ElementwiseTrial:
    """The check of one node whose results' elements depend on the same elements of its inputs."""

    def __init__(self, trial: GradientTrial) -> None:
        self.trial = trial
        self.flat = [self._whole(x) for x in trial.arrays]

    def _whole(self, array: Any) -> Array:
        """An input in the results' shape, flat."""
        return np.broadcast_to(array, self.trial.forward.shape).reshape(-1)

    def doubt(self, index: int) -> Doubt | None:
        """What is wrong with the gradient of an input, or None."""
        gradient = self.trial.gradients[index]
        assert gradient is not None  # it is one of those that can be checked
        rounding = rounding_of(gradient, True)
        x = self.trial.arrays[index]
        owner = self._whole(np.arange(x.size).reshape(x.shape))
        given = np.asarray(gradient.to_host(), np.float64).reshape(-1)
        if doubt := self.trial.at_infinity(index, given, rounding, self._settled(owner, x.size)):
            return doubt
        suspects = np.flatnonzero(np.isfinite(given) & ~self._clear(index, owner, given, rounding))
        random = self.trial.random(index)
        each = max(1, _AT_A_TIME * x.size // max(owner.size, 1))
        for first in range(0, suspects.size, each):
            some = suspects[first : first + each]
            low, high = self._bounds(index, owner, some, rounding, random)
            wrong = np.flatnonzero((given[some] < low) | (given[some] > high))
            if wrong.size:
                k = wrong[0]
                place = tuple(int(i) for i in np.unravel_index(some[k], x.shape))
                return Doubt(index, place, float(given[some[k]]), float(low[k]), float(high[k]))
        return None

    def _settled(self, owner: Array, size: int) -> Array:
        """Which elements of an input have only finite results, among those with a weight."""
        results = _rows([result.reshape(-1) for result in self.trial.results], owner)
        beyond = (~np.isfinite(results) & (self.trial.upstream != 0)).any(axis=0)
        within: Array = np.bincount(owner, beyond, size) == 0
        return within

    def _clear(self, index: int, owner: Array, given: Array, rounding: Rounding) -> Array:
        """Which elements agree with a central difference of fourth order."""
        x = self.flat[index]
        scale = np.maximum(np.abs(x), 1e-4)
        slopes_here = slope(lambda t: self._along(self.flat, index, scale, t), _STEP) / scale
        upstream = self.trial.upstream
        terms = np.where(upstream == 0, 0, upstream * slopes_here).sum(axis=0)
        total = np.bincount(owner, terms, given.size)
        margin = max(8 * rounding.stored, 2e-5)
        clear: Array = np.abs(given - total) <= margin * np.abs(total)
        return clear

    def _results(self, arrays: Sequence[Array], index: int, x: Array) -> Array:
        """The results, a row each, with other values of one input."""
        given = [x if i == index else a for i, a in enumerate(arrays)]
        return _rows(self.trial.forward.run(given), x)

    def _along(self, arrays: Sequence[Array], index: int, scale: Array, step: float) -> Array:
        """The results where one input is moved by `step` of its scale."""
        return self._results(arrays, index, arrays[index] + step * scale)

    def _bounds(
        self,
        index: int,
        owner: Array,
        some: Array,
        rounding: Rounding,
        random: np.random.Generator,
    ) -> tuple[Array, Array]:
        """Between what the gradients of some elements of an input have to be."""
        members = np.flatnonzero(np.isin(owner, some))
        arrays = [array[members] for array in self.flat]
        upstream = self.trial.upstream[:, members]
        low, high, margin = self._slopes(index, arrays, rounding, random)
        least, most = times(upstream, low, high)
        beyond = np.where(upstream == 0, 0, np.abs(upstream) * margin)
        beyond = beyond + rounding.tiny * (1 + np.abs(upstream))
        place = np.searchsorted(some, owner[members])

        def summed(terms: Array) -> Array:
            return np.bincount(place, terms.sum(axis=0), some.size)

        count = 4 * rounding.inner * np.sqrt(np.bincount(place, minlength=some.size))
        size = summed(np.maximum(np.abs(least), np.abs(most)))
        total = summed(beyond) + np.where(np.isfinite(size), count * size, 0)
        return summed(least) - total, summed(most) + total

    def _slopes(
        self, index: int, arrays: Sequence[Array], rounding: Rounding, random: np.random.Generator
    ) -> _Bounds:
        """The bounds of each result's slopes around some elements, and the margin beyond them."""
        points = self.trial.points(arrays, random)
        error = self._forward_error(points)
        bounds = [self._slopes_at(index, point, rounding, error) for point in points]
        low, high, margin = self._hull(bounds)
        value = np.abs(self._results(arrays, index, arrays[index]))
        if (error > 64 * rounding.inner * value).any():
            points = self._shifted(index, arrays, error, low, high)
            bounds += [self._slopes_at(index, point, rounding, error) for point in points]
            low, high, margin = self._hull(bounds)
        return low, high, margin

    def _hull(self, bounds: Sequence[_Bounds]) -> _Bounds:
        lows, highs, margins = zip(*bounds, strict=True)
        return *hull(lows, highs), np.max(margins, axis=0)

    def _forward_error(self, points: Sequence[Sequence[Array]]) -> Array:
        """How far the forward's own rounding takes it off, at most, at any of the points."""
        coarse = self.trial.forward.coarse
        assert coarse is not None  # it is elementwise
        apart = []
        for point in points:
            exact = _rows(self.trial.forward.run(point), point[0])
            apart.append(np.abs(_rows(coarse(point), point[0]) - exact))
        error: Array = np.nan_to_num(np.max(apart, axis=0), nan=0, posinf=0)
        return error

    def _slopes_at(
        self, index: int, arrays: Sequence[Array], rounding: Rounding, error: Array
    ) -> _Bounds:
        """The same at one point: by steps of the element's size, or of 1 where these tell more."""
        x = arrays[index]
        scales = np.where(x == 0, 1.0, np.abs(x)), np.maximum(np.abs(x), 1.0)
        fine, coarse = (
            self._slopes_with(index, arrays, scale, rounding, error) for scale in scales
        )
        better = ~(coarse[1] - coarse[0] >= fine[1] - fine[0])
        low, high, margin = (np.where(better, b, a) for a, b in zip(fine, coarse, strict=True))
        return low, high, margin

    def _slopes_with(
        self,
        index: int,
        arrays: Sequence[Array],
        scale: Array,
        rounding: Rounding,
        error: Array,
    ) -> _Bounds:
        """The same by steps of one size."""
        measured = slopes(lambda t: self._along(arrays, index, scale, t), rounding.most_bend)
        size = np.where(np.isfinite(measured.size), measured.size, 0)
        doubtful = (8 * rounding.inner * np.abs(measured.middle) + 4 * error) * measured.bend
        margin = rounding.relative * size + np.nan_to_num(doubtful)
        return measured.low / scale, measured.high / scale, margin / scale

    def _shifted(
        self, index: int, arrays: Sequence[Array], error: Array, low: Array, high: Array
    ) -> list[list[Array]]:
        """Where a forward lies that cancels: as far off as its error says, to both sides."""
        x = arrays[index]
        slope = np.maximum(np.abs(low), np.abs(high))
        shift = np.nan_to_num((2 * error / slope).max(axis=0), nan=0, posinf=np.inf)
        shift = np.minimum(shift, 1.25 * np.abs(x))
        return [[x + way * shift if i == index else a for i, a in enumerate(arrays)]
                for way in (1, -1)]  # fmt: skip


def _rows(results: Sequence[Array], like: Array) -> Array:
    return np.stack([np.broadcast_to(result, like.shape) for result in results])
