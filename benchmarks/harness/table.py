"""A record as a table: our times, and their best in parts of each peer's and of the limit's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from harness.peers import PEERS
from harness.records import RaceRecord, RaceResult

_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def duration(seconds: float) -> str:
    """Three digits and a unit.

    >>> duration(0.001234), duration(12e-6)
    ('1.23 ms', '12 us')
    """
    size, unit = next((each for each in _UNITS if seconds >= each[0]), _UNITS[-1])
    return (
        f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:.0f} {unit}"
    )


def columns(record: RaceRecord) -> tuple[list[str], list[str]]:
    """Our ways and the others that have a time somewhere, in the peers' order."""
    columns_of = [
        {name for result in record.results for name in result.times(ours)} for ours in (True, False)
    ]
    ordered = [*PEERS, *sorted((columns_of[0] | columns_of[1]) - PEERS.keys())]
    ours, others = ([name for name in ordered if name in names] for names in columns_of)
    return ours, others


def header(record: RaceRecord) -> list[str]:
    """Names of the columns."""
    ours, others = columns(record)
    return ["case", *ours, *(f"/ {name}" for name in others), "/ limit"]


def rows(record: RaceRecord, bold: str = "") -> Iterator[list[str]]:
    """A row per case: times of ours; then the best of them in parts of each other.

    Args:
        record: What is shown.
        bold: What stands before and behind the ratio to the best peer.
    """
    ours, others = columns(record)
    for result in record.results:
        yield [f"{result.item}/{result.case}", *_cells(result, ours, others, bold)]


def _cells(
    result: RaceResult, ours: Sequence[str], others: Sequence[str], bold: str
) -> Iterator[str]:
    mine, best, rival = result.times(True), result.best(True), result.best(False)
    for name in ours:
        outcome = result.outcomes.get(name)
        state = "" if outcome is None else outcome.state
        yield duration(mine[name]) if name in mine else state
    for name in others:
        seconds = result.times(False).get(name)
        outcome = result.outcomes.get(name)
        mark = bold if name == rival else ""
        if seconds is None:
            yield "" if outcome is None else outcome.state
        else:
            yield f"{mark}{mine[best] / seconds:.2f}{mark}" if best else "-"
    ratio = result.of_limit()
    yield f"{ratio:.2f} ({result.limit})" if ratio is not None else ""


def notes(record: RaceRecord) -> Iterator[str]:
    """Why something has no time, a line each; that a peer is absent is said once."""
    absent = {
        f"{name}: absent, {outcome.note}": None
        for result in record.results
        for name, outcome in result.outcomes.items()
        if outcome.state == "absent"
    }
    yield from absent
    for result in record.results:
        what = f"{result.item}/{result.case}"
        if result.needs:
            yield f"{what}: {result.needs}"
        for name, outcome in result.outcomes.items():
            if outcome.state in ("failed", "wrong"):
                yield f"{what}: {name} {outcome.state}, {outcome.note}"


def slower(record: RaceRecord, bound: float = 1.3) -> Iterator[str]:
    """A line for each case whose best time of ours is above the bound beside some peer's."""
    for result in record.results:
        best = result.best(True)
        if not best:
            continue
        ours = result.times(True)[best]
        ratios = {name: ours / seconds for name, seconds in result.times(False).items()}
        above = {name: ratio for name, ratio in ratios.items() if ratio > bound}
        if above:
            text = ", ".join(f"{ratio:.2f} of {name}" for name, ratio in above.items())
            yield f"slower: {result.item}/{result.case}: {best} takes {text}"


def heading(record: RaceRecord) -> str:
    """The device and the date in a line."""
    device = record.device
    driver = f"{device['platform']} {device['driver']}"
    return f"{device['name']}, {device['units']} units, {driver}, {record.date[:10]}"


def libraries(record: RaceRecord) -> str:
    """The versions in a line."""
    return ", ".join(f"{name} {version}" for name, version in record.versions.items())


def markdown(record: RaceRecord) -> Iterator[str]:
    """The table for a page; the ratio to the best peer is bold."""
    names = header(record)
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows(record, "**"):
        yield f"| {' | '.join(row)} |"
