"""Racing: the times of several calls as ratios, measured in turn in one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import Device
from netcl_core.inspect.streams import stream_of
from netcl_plugin_kit.timing import Timed

_ROUNDS: Final = 9
#: Seconds that the calls of one contender in a round take together, and the most of them.
_ROUND: Final = 2e-3
_MOST: Final = 200


@final
@dataclass(frozen=True, slots=True)
class Contender:
    """A call, and the scope that it is made in, which a round enters once."""

    run: Callable[[], Any]
    scope: Callable[[], AbstractContextManager[Any]]


@final
@dataclass(frozen=True, slots=True)
class Raced:
    """What came of one contender: its best time of a call, and its ratios to the first one."""

    seconds: float
    ratios: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Its time in those of the first contender, round by round."""
        return statistics.median(self.ratios)

    def exceeds(self, bound: float) -> bool:
        """Whether it is slower than that, and in most rounds; noise alone does that to few."""
        slower = sum(ratio > bound for ratio in self.ratios)
        return self.ratio > bound and 4 * slower >= 3 * len(self.ratios)


def race(contenders: Sequence[Contender], device: Device) -> list[Raced]:
    """Call each in turn, round by round; what only a first call does counts for nothing."""
    counts = [_calls(contender, device) for contender in contenders]
    rounds = [
        [
            _timed(contender, count, device)
            for contender, count in zip(contenders, counts, strict=True)
        ]
        for _ in range(_ROUNDS)
    ]
    return [
        Raced(min(row[i] for row in rounds), tuple(row[i] / row[0] for row in rounds))
        for i in range(len(contenders))
    ]


def _calls(contender: Contender, device: Device) -> int:
    once = min(_timed(contender, 1, device) for _ in range(2))
    return max(1, min(_MOST, int(_ROUND / max(once, 1e-9))))


def _timed(contender: Contender, count: int, device: Device) -> float:
    """Seconds of one of so many calls."""
    finish = stream_of(device).finish
    timed = Timed(contender.run, lambda _: finish(), each=False)
    with contender.scope():
        timed.stretch(1)
        return timed.stretch(count)
