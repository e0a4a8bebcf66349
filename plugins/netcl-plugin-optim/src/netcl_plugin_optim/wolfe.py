"""A line search for the strong Wolfe conditions (Nocedal, Wright 2006, algorithms 3.5 and 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

#: The conditions: of enough decrease, and of a slope that is flat enough.
_DECREASE: Final = 1e-4
_FLATNESS: Final = 0.9
#: A bracket whose largest change of a parameter is smaller is not divided further.
_NARROW: Final = 1e-9


@final
@dataclass(frozen=True, slots=True)
class Point:
    """A place on the line: how far along, the loss there, its gradient, its slope on the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


def search(
    at: Callable[[float], Point], begin: Point, t: float, largest: float, most: int
) -> tuple[Point, int]:
    """A point with less loss and a flat slope, and how often the loss was computed.

    Args:
        at: Computes the point that far along.
        begin: The point at 0.
        t: Where to look first.
        largest: The largest component of the direction.
        most: How many points are tried after the first.
    """
    before, now, turns = begin, at(t), 0
    while turns < most:
        if _too_high(now, begin) or (turns > 1 and now.loss >= before.loss):
            break
        if abs(now.slope) <= -_FLATNESS * begin.slope:
            return now, turns + 1
        if now.slope >= 0:
            break
        bounds = now.t + 0.01 * (now.t - before.t), now.t * 10
        before, now, turns = now, at(_lowest(before, now, *bounds)), turns + 1
    else:
        before = begin
    return _zoom(at, begin, before, now, largest, most, turns)


def _zoom(
    at: Callable[[float], Point],
    begin: Point,
    one: Point,
    other: Point,
    largest: float,
    most: int,
    turns: int,
) -> tuple[Point, int]:
    """The lower end of a bracket that is narrowed until it is flat there."""
    low, high = (one, other) if one.loss <= other.loss else (other, one)
    stuck = False
    while turns < most and abs(high.t - low.t) * largest >= _NARROW:
        t, stuck = _inside(low, high, stuck)
        now, turns = at(t), turns + 1
        if _too_high(now, begin) or now.loss >= low.loss:
            low, high = (low, now) if low.loss <= now.loss else (now, low)
            continue
        if abs(now.slope) <= -_FLATNESS * begin.slope:
            return now, turns + 1
        high = low if now.slope * (high.t - low.t) >= 0 else high
        low = now
    return low, turns + 1


def _too_high(point: Point, begin: Point) -> bool:
    return point.loss > begin.loss + _DECREASE * point.t * begin.slope


def _inside(low: Point, high: Point, stuck: bool) -> tuple[float, bool]:
    """Where to look between two points, away from both the second time that it is close to one."""
    left, right = sorted((low.t, high.t))
    t, margin = _lowest(low, high, left, right), 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if right - t < t - left else left + margin), False
    return t, True


def _lowest(one: Point, other: Point, left: float, right: float) -> float:
    """Where the cubic through two points with their slopes is lowest, between two bounds.

    (Nocedal, Wright 2006, equation 3.59)
    """
    if one.t > other.t:
        one, other = other, one
    mixed = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.t - other.t)
    square = mixed * mixed - one.slope * other.slope
    if not square >= 0:
        return (left + right) / 2
    root = math.sqrt(square)
    share = (other.slope + root - mixed) / (other.slope - one.slope + 2 * root)
    return min(max(other.t - (other.t - one.t) * share, left), right)
