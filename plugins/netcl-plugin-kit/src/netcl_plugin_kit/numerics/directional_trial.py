"""Gradients of forwards whose results depend on many elements: along directions.

The elements of an input are put into groups of about equal weight, and a group is moved in the
direction of its gradient's signs, so that nothing cancels: `<gradient, v> = d/dt <g, f(x + t v)>`.
A group that contradicts is halved until one element stands accused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from netcl_core.inspect.data import Array
from netcl_plugin_kit.numerics.differences import slope, slopes
from netcl_plugin_kit.numerics.gradient_trial import (
    Doubt,
    GradientTrial,
    Rounding,
    hull,
    rounding_of,
    rows_of,
    times,
)

_STEP: Final = 2.0**-14
_GROUPS: Final = (4, 32)
#: So many elements are computed for all groups, or as few groups are made as there may be.
_WORK: Final = 1 << 22
#: How many groups are looked at in halves, at most.
_HALVED: Final = 32
#: Bounds that are wider, by the slope, hide what one element does: they are halved, too.
_WIDE: Final = 1e-3


@final
@dataclass(frozen=True, slots=True)
class _Verdict:
    """The bounds of a group's slope, and what its gradient gives.

    `reach` is how far its first element goes, `length` how far all of them together.
    """

    given: float
    low: float
    high: float
    reach: float
    length: float

    @property
    def contradicts(self) -> bool:
        return self.given < self.low or self.given > self.high

    @property
    def spread(self) -> float:
        """How far the bounds are apart, for moves of one length."""
        return (self.high - self.low) / self.length

    @property
    def wide(self) -> bool:
        size = max(abs(self.low), abs(self.high))
        return not (self.high - self.low <= _WIDE * size)


@final
class DirectionalTrial:
    """The check of one input of a node."""

    def __init__(self, trial: GradientTrial, index: int) -> None:
        gradient = trial.gradients[index]
        assert gradient is not None  # it is one of those that can be checked
        self.trial = trial
        self.index = index
        self.rounding: Rounding = rounding_of(gradient, False)
        self.shape = gradient.shape
        self.x = trial.arrays[index].reshape(-1)
        self.given = np.asarray(gradient.to_host(), np.float64).reshape(-1)
        self.random = trial.random(index)
        self.left = _HALVED

    def doubt(self) -> Doubt | None:
        """What is wrong with the gradient, or None."""
        trial = self.trial
        results = self._rows(trial.results)
        if not np.isfinite(results[trial.upstream != 0]).all():
            return None  # no slope is known, and NaN is what the other mode looks for
        if doubt := trial.at_infinity(self.index, self.given, self.rounding):
            return doubt
        late: list[tuple[Array, _Verdict]] = []
        for group in self._groups():
            if self._clear(group):
                continue
            verdict = self._judge(group)
            if verdict.contradicts and (doubt := self._convicted(group, verdict)):
                return doubt
            if verdict.wide:
                late.append((group, verdict))
        for group, verdict in late:
            if doubt := self._accused(group, verdict):
                return doubt
        return None

    def _rows(self, results: Sequence[Array]) -> Array:
        return rows_of(results, self.trial.upstream.shape[1])

    def _groups(self) -> Iterator[Array]:
        usable = np.flatnonzero(np.isfinite(self.x) & np.isfinite(self.given))
        weights = np.abs(self.given[usable]) * self._scale(usable, 0.0)
        usable = usable[np.argsort(weights, kind="stable")]
        work = self.x.size + self.trial.upstream.size
        count = int(np.clip(_WORK // max(work, 1), *_GROUPS))
        yield from (indices for indices in (usable, *np.array_split(usable, count)) if indices.size)

    def _scale(self, group: Array, least: float) -> Array:
        """The size of each element; of zeros that of a usual one."""
        size = np.abs(self.x[group])
        present = np.abs(self.x[np.isfinite(self.x) & (self.x != 0)])
        usual = float(np.median(present)) if present.size else 1.0
        return np.maximum(np.where(size == 0, usual, size), least)

    def _direction(self, group: Array, least: float) -> Array:
        """How far each element goes; equal ones with gradients of one sign go together."""
        ways = np.sign(self.given[group])
        ways = np.where(ways == 0, self.random.choice([-1.0, 1.0], group.size), ways)
        scale = self._scale(group, least)
        turn, start = self.random.uniform(1, 9), self.random.uniform(0, 6)
        direction: Array = ways * scale * (1 + 0.5 * np.sin(turn * self.x[group] / scale + start))
        return direction

    def _line(
        self, arrays: list[Array], group: Array, direction: Array
    ) -> Callable[[float], Array]:
        """The results, a row each, along a direction."""
        start = arrays[self.index]

        def f(t: float) -> Array:
            moved = start.reshape(-1).copy()
            moved[group] += t * direction
            given = [moved.reshape(start.shape) if i == self.index else a
                     for i, a in enumerate(arrays)]  # fmt: skip
            return self._rows(self.trial.forward.run(given))

        return f

    def _clear(self, group: Array) -> bool:
        """Whether a group agrees with a central difference of fourth order.

        Terms that cancel (of a bias before a batch norm) leave a sum that is nothing but rounding.
        """
        direction = self._direction(group, 0.0)
        f = self._line(self.trial.arrays, group, direction)
        weights = self.trial.upstream
        terms = np.where(weights == 0, 0, weights * slope(f, _STEP))
        total, most = abs(float(terms.sum())), float(np.abs(terms).sum())
        given = float((self.given[group] * direction).sum())
        relative = max(8 * self.rounding.stored, 2e-5)
        margin = max(relative * total, 8 * min(self.rounding.inner, 2.0**-24) * most)
        return abs(given - float(terms.sum())) <= margin

    def _judge(self, group: Array) -> _Verdict:
        """The bounds of a group by steps of its elements' size, or of 1 where these tell more."""
        directions = [self._direction(group, least) for least in (0.0, 1.0)]
        verdict = self._judge_along(group, directions[0], around=False)
        if verdict.contradicts or verdict.wide:
            other = self._judge_along(group, directions[1], around=False)
            verdict = min(verdict, other, key=lambda each: each.spread)
        if verdict.contradicts:
            verdicts = [self._judge_along(group, direction) for direction in directions]
            verdict = min(verdicts, key=lambda each: each.spread)
        return verdict

    def _judge_along(self, group: Array, direction: Array, *, around: bool = True) -> _Verdict:
        """The bounds along a direction, at the inputs alone or also around them."""
        arrays = self.trial.arrays
        points = self.trial.points(arrays, self.random) if around else [arrays]
        weights = self.trial.upstream
        lows, highs, beyond = [], [], 0.0
        for point in points:
            f = self._line(point, group, direction)
            measured = slopes(f, self.rounding.most_bend)
            lows.append(measured.low)
            highs.append(measured.high)
            size = np.abs(measured.middle)
            bend = np.where(weights == 0, 0, np.abs(weights) * size * measured.bend)
            beyond = max(beyond, float(bend.sum()))
        low, high = times(weights, *hull(lows, highs))
        sizes = np.maximum(np.abs(low), np.abs(high))
        margin = self._margin(group, direction, sizes, beyond)
        middle = abs(float(low.sum() + high.sum())) / 2
        margin += 8 * self.rounding.stored * middle if np.isfinite(middle) else 0.0
        given = float((self.given[group] * direction).sum())
        if not float(low.sum()) - margin <= given <= float(high.sum()) + margin:
            margin += 16 * self.rounding.stored * self._reach(arrays, group, direction)
        bounds = float(low.sum()) - margin, float(high.sum()) + margin
        return _Verdict(given, *bounds, float(direction[0]), float(np.abs(direction).sum()))

    def _reach(self, arrays: list[Array], group: Array, direction: Array) -> float:
        """How far the results go where elements turn to their negatives, or to thrice their size.

        It is that of a move as long as the direction. A gradient that is tiny beside it is a
        difference of terms that are not: where a softmax has come near 1, its gradient is 1 less a
        number that is rounded near 1.
        """
        length = np.maximum(np.abs(direction), 1.0)
        f = self._line(arrays, group, 2 * np.copysign(length, direction))
        apart = np.maximum(np.abs(f(1.0) - f(0.0)), np.abs(f(-1.0) - f(0.0)))
        moved = np.abs(self.trial.upstream) * apart
        whole = float(np.where(np.isfinite(moved), moved, 0.0).sum())
        return whole * float((np.abs(direction) / length).max())

    def _margin(self, group: Array, direction: Array, sizes: Array, bent: float) -> float:
        """What rounding may add: to sums of so large terms, and to results that bend so much."""
        single = min(self.rounding.inner, 2.0**-24)
        inner = np.full_like(sizes, 64 * single + 4 * single * np.sqrt(sizes.size))
        outer = 16 * single
        if self.rounding.inner > single:  # 16 bits are kept between one kernel and the next
            inner += self.rounding.inner if self._is_linear(group) else self._kept()
            outer += 2 * self.rounding.inner
        upstream = 1 + float(np.abs(self.trial.upstream).max(initial=0.0))
        tiny = self.rounding.tiny * upstream * float(np.abs(direction).sum())
        return float(np.where(np.isfinite(sizes), inner * sizes, 0).sum() + outer * bent + tiny)

    def _kept(self) -> Array:
        """How far results are off, by their size, that a gradient is made of in 16 bits."""
        results = self._rows(self.trial.results)
        weights = np.abs(self.trial.upstream)
        faint = self.rounding.tiny / (np.abs(results) * np.minimum(weights, 1))
        kept: Array = 3 * self.rounding.inner + np.minimum(np.nan_to_num(faint, nan=1.0), 1.0)
        return kept

    def _is_linear(self, group: Array) -> bool:
        """Whether large steps say so: then a gradient is not made of rounded results."""
        f = self._line(self.trial.arrays, group, self._direction(group, 0.0))
        middle = f(0.0)
        half, back, full = (f(t) - middle for t in (0.5, -0.5, 1.0))
        size = (np.abs(full) + np.abs(middle)).max(initial=0.0)
        apart = np.maximum(np.abs(half + back), np.abs(full - 2 * half)).max(initial=0.0)
        return bool(apart <= 1e-10 * size)

    def _convicted(self, group: Array, verdict: _Verdict) -> Doubt | None:
        """The element that is wrong; or the whole group, if equal elements that go together say so.

        Of equal elements that share a maximum each may have any part of its gradient, but not
        all of them together. Elements at other kinks contradict along some directions only.
        """
        if culprit := self._accused(group, verdict):
            return culprit
        for aligned in (True, False, True, False):
            direction = self._direction(group, 0.0)
            verdict = self._judge_along(group, direction if aligned else np.abs(direction))
            if not verdict.contradicts:
                return None
        ends = verdict.low / verdict.length, verdict.high / verdict.length
        return Doubt(self.index, None, verdict.given / verdict.length, *ends)

    def _accused(self, group: Array, verdict: _Verdict) -> Doubt | None:
        """The element of a group whose gradient contradicts by itself."""
        if group.size == 1:
            return self._single(int(group[0]), verdict) if verdict.contradicts else None
        halves = []
        for half in np.array_split(self.random.permutation(group), 2):
            if self.left <= 0:
                return None
            self.left -= 1
            halves.append((half, self._judge(half)))
        halves.sort(key=lambda each: not each[1].contradicts)
        for half, judged in halves:
            follow = judged.contradicts or (judged.wide and not verdict.contradicts)
            if follow and (accused := self._accused(half, judged)):
                return accused
        return None

    def _single(self, element: int, verdict: _Verdict) -> Doubt:
        ends = sorted((verdict.low / verdict.reach, verdict.high / verdict.reach))
        place = tuple(int(i) for i in np.unravel_index(element, self.shape))
        return Doubt(self.index, place, float(self.given[element]), *ends)
