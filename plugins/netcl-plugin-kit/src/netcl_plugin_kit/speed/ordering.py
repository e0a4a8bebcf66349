"""The order of an op's candidates that serves some measured calls fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations
from typing import Final, TypeAlias

from netcl_plugin_kit.speed.comparing import Measured, TimedCandidate

#: By how much less time an order has to take than the rules' one: less is noise.
WORTH: Final = 0.95
#: Of how many candidates all orders are compared: nobody has more that are worth it.
_MOST: Final = 6
#: Who, and in the calls that it computes the time in that of who serves now.
_Ratios: TypeAlias = dict[str, dict[int, float]]


def fastest_order(measurement: Measured) -> tuple[list[str], float]:
    """The candidates, the first choice first, and what the calls take in the time they take now.

    Each is `<distribution>:<label>`. In a call serves the first that does not refuse it; times
    are compared by their geometric mean. The order is empty where nothing was measured.
    """
    ratios: _Ratios = {}
    for number, (_, candidates) in enumerate(measurement.calls):
        for candidate in candidates:
            if candidate.ratio:
                ratios.setdefault(name_of(candidate), {})[number] = candidate.ratio
    calls = {number for row in ratios.values() for number in row}
    if not calls:
        return [], 1.0
    best = sorted(ratios, key=lambda name: math.prod(ratios[name].values()))[:_MOST]
    order = min(permutations(best), key=lambda names: _cost(names, ratios, calls))
    kept = [name for name in order if any(_serving(order, ratios, n) == name for n in calls)]
    return kept, math.exp(_cost(order, ratios, calls) / len(calls))


def name_of(candidate: TimedCandidate) -> str:
    """How the setting `resolve` names a candidate."""
    return f"{candidate.provider}:{candidate.label}"


def _serving(order: Sequence[str], ratios: _Ratios, call: int) -> str:
    return next((name for name in order if call in ratios[name]), "")


def _cost(order: Sequence[str], ratios: _Ratios, calls: set[int]) -> float:
    """The logarithms of the times; a call that nobody of them computes costs as much as now."""
    names = {call: _serving(order, ratios, call) for call in calls}
    return sum(math.log(ratios[name][call]) for call, name in names.items() if name)
