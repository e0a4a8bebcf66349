"""Whether a run fell behind an earlier one: its ratios are compared, never its times.

If a kernel becomes slower, its ratios to all peers and to the limit grow; if one of them grows
alone, that peer had a better day. So a case fell behind if each ratio that both records have
grew by more than is tolerated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from harness.records import RaceRecord, RaceResult

#: How much a ratio may grow: on a shared machine the same kernels differ by less than this.
TOLERANCE: Final = 0.25
_LIMIT: Final = "the limit"


def fallen(now: Iterable[RaceResult], then: RaceRecord, tolerance: float = TOLERANCE) -> list[str]:
    """One line for each of our ways to do a case that fell behind; cases of one record are skipped.

    Args:
        now: The new results.
        then: The earlier one.
        tolerance: 0.25 lets a ratio of 0.8 become 1.0.
    """
    earlier = {(result.item, result.case): result for result in then.results}
    return [
        line
        for result in now
        if (result.item, result.case) in earlier
        for line in _lines(result, earlier[result.item, result.case], tolerance)
    ]


def _lines(now: RaceResult, then: RaceResult, tolerance: float) -> Iterator[str]:
    what = f"{now.item}/{now.case}"
    for name in then.times(True):
        outcome = now.outcomes.get(name)
        if outcome is not None and outcome.state in ("failed", "wrong"):
            yield f"{what}: {name} was timed, and is {outcome.state} now: {outcome.note}"
        elif outcome is not None and outcome.seconds is not None:
            old, new = _ratios(then, name), _ratios(now, name)
            growth = {each: new[each] / old[each] for each in new if each in old}
            least = min(growth, key=growth.__getitem__, default="")
            if least and growth[least] > 1 + tolerance:
                yield (
                    f"{what}: {name} takes {new[least]:.2f} of {least}, {old[least]:.2f} before "
                    f"({growth[least]:.2f} times, {1 + tolerance:.2f} are tolerated)"
                )


def _ratios(result: RaceResult, name: str) -> dict[str, float]:
    """Peer, or the limit -> the time of one of ours in parts of its."""
    seconds = result.times(True)[name]
    others = result.times(False)
    if result.limit_seconds:
        others = {**others, _LIMIT: result.limit_seconds}
    return {seconds_of_other: seconds / time for seconds_of_other, time in others.items()}
