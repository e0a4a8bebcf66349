"""Timing: all take turns, round after round, and the best time of each counts.

So a busy machine slows all alike, and a disturbed stretch is forgotten.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, final

#: Seconds since some moment.
Clock: TypeAlias = Callable[[], float]
Key = TypeVar("Key", bound=Hashable)
#: Seconds that a turn takes at least, and a stretch of it: short, since only an undisturbed one
#: counts; but where calls are enqueued, a turn is one stretch that ends with a wait.
_TURN, _STRETCH = 5e-3, 5e-4
_ROUNDS: Final = 3
#: Calls before the first that counts: they build, allocate, and let caches settle.
_WARM: Final = 3


@final
@dataclass(frozen=True)
class Timed:
    """One that is timed.

    Attributes:
        call: What is timed.
        wait: Waits for what a call returned.
        each: Whether it waits for every call; else for the last of a stretch.
    """

    call: Callable[[], Any]
    wait: Callable[[Any], object]
    each: bool

    def stretch(self, calls: int, clock: Clock = time.perf_counter) -> float:
        """Seconds per call, of so many."""
        start = clock()
        for _ in range(calls):
            result = self.call()
            if self.each:
                self.wait(result)
        if not self.each:
            self.wait(result)
        return (clock() - start) / calls


def best_times(
    contenders: Mapping[Key, Timed], budget: float, clock: Clock = time.perf_counter
) -> tuple[dict[Key, float], dict[Key, Exception]]:
    """The best time of a call of each, in seconds, and what those raised that could not go on.

    Args:
        contenders: Whatever tells them apart -> what is timed.
        budget: Seconds that the rounds take together; there are three at least.
        clock: What time is read from.
    """
    failed: dict[Key, Exception] = {}
    turns: dict[Key, tuple[int, int]] = {}
    for name, contender in contenders.items():
        try:
            turns[name] = _turn(contender, clock)
        except Exception as error:
            failed[name] = error
    best = dict.fromkeys(turns, math.inf)
    stop, rounds = clock() + budget, 0
    while best and (rounds < _ROUNDS or clock() < stop):
        _round({name: contenders[name] for name in best}, turns, best, failed, clock)
        rounds += 1
    return best, failed


def _turn(contender: Timed, clock: Clock) -> tuple[int, int]:
    """How many stretches make a turn, and how many calls a stretch; warms up before."""
    contender.stretch(_WARM, clock)
    once = max(contender.stretch(1, clock), 1e-7)
    calls = math.ceil((_STRETCH if contender.each else _TURN) / once)
    return math.ceil(_TURN / (calls * once)), calls


def _round(
    contenders: Mapping[Key, Timed],
    turns: Mapping[Key, tuple[int, int]],
    best: dict[Key, float],
    failed: dict[Key, Exception],
    clock: Clock,
) -> None:
    for name, contender in contenders.items():
        stretches, calls = turns[name]
        try:
            for _ in range(stretches):
                best[name] = min(best[name], contender.stretch(calls, clock))
        except Exception as error:
            failed[name] = error
            del best[name]
