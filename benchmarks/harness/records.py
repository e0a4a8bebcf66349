"""The record of a run: the machine, the versions, the times and ratios of each case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, final

from netcl_market.records import read
from netcl_plugin_kit.writing import write_text

from netcl_core.errors import ArgumentError, message

SCHEMA: Final = 1
State = Literal["timed", "absent", "failed", "wrong"]
_KIND: Final = "bench"


@final
@dataclass(frozen=True)
class RaceOutcome:
    """What came of one peer: a time, or why there is none.

    Attributes:
        seconds: Of one call, the best; None unless it was timed.
        note: Why it was not, or how far its results were off.
    """

    state: State
    ours: bool
    seconds: float | None = None
    note: str = ""


@final
@dataclass(frozen=True)
class RaceResult:
    """What came of a case.

    Attributes:
        item: The file that it is of.
        case: Its name.
        outcomes: Peer -> outcome.
        limit: The name of the limit, or empty.
        limit_seconds: Its time.
        needs: Why the case was not run, or empty.
    """

    item: str
    case: str
    outcomes: Mapping[str, RaceOutcome]
    limit: str = ""
    limit_seconds: float | None = None
    needs: str = ""

    def times(self, ours: bool) -> dict[str, float]:
        """Peer -> seconds, of ours or of the others."""
        return {
            name: outcome.seconds
            for name, outcome in self.outcomes.items()
            if outcome.ours is ours and outcome.seconds is not None
        }

    def best(self, ours: bool) -> str:
        """The fastest peer of ours or of the others; empty: there is none."""
        times = self.times(ours)
        return min(times, key=times.__getitem__, default="")

    def or_faster(self, again: RaceResult) -> RaceResult:
        """Of two runs the better time of each peer, and what failed or was wrong in one of them."""
        outcomes = {
            name: min(
                outcome, again.outcomes.get(name, outcome), key=lambda each: each.seconds or 0.0
            )
            for name, outcome in self.outcomes.items()
        }
        limits = [x for x in (self.limit_seconds, again.limit_seconds) if x is not None]
        return replace(self, outcomes=outcomes, limit_seconds=min(limits, default=None))

    def ratio(self) -> float | None:
        """Our best time in parts of the best of the others."""
        ours, others = self.times(True), self.times(False)
        return min(ours.values()) / min(others.values()) if ours and others else None

    def of_limit(self) -> float | None:
        """Our best time in parts of the limit's."""
        ours = self.times(True)
        return min(ours.values()) / self.limit_seconds if ours and self.limit_seconds else None

    def troubles(self) -> list[str]:
        """What is wrong with ours, one line each."""
        return [
            f"{self.item}/{self.case}: {name} {outcome.state}: {outcome.note}"
            for name, outcome in self.outcomes.items()
            if outcome.ours and outcome.state in ("failed", "wrong")
        ]


@final
@dataclass(frozen=True)
class RaceRecord:
    """A run.

    Attributes:
        date: When it began, ISO 8601 with the zone.
        device: `name`, `platform`, `kind`, `driver`; `units` that compute, as the driver
            counts them.
        versions: Package -> version.
        settings: What else decides: the budget, how threads wait, what else ran at the start.
        results: One per case.
    """

    date: str
    device: Mapping[str, str]
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    results: tuple[RaceResult, ...]

    def as_data(self) -> dict[str, Any]:
        """The record as JSON has it, with the ratios."""
        return {
            "schema": SCHEMA,
            "kind": _KIND,
            "date": self.date,
            "device": dict(self.device),
            "versions": dict(self.versions),
            "settings": dict(self.settings),
            "results": [_with_ratios(result) for result in self.results],
        }


def _with_ratios(result: RaceResult) -> dict[str, Any]:
    return {
        **asdict(result),
        "ours": result.best(True),
        "peer": result.best(False),
        "ratio": result.ratio(),
        "of_limit": result.of_limit(),
    }


def save(record: RaceRecord, path: Path) -> None:
    """Write a record as JSON."""
    text = json.dumps(record.as_data(), indent=1, ensure_ascii=False)
    write_text("bench", path, f"{text}\n")


def load(path: Path) -> RaceRecord:
    """Read a record; raises ArgumentError where the file holds none of this schema."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if (data["kind"], data["schema"]) != (_KIND, SCHEMA):
            raise ValueError(f"kind {data['kind']!r}, schema {data['schema']!r}")
        record: RaceRecord = read(RaceRecord, data)
        return record
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = f"a record of `python benchmarks --json`, schema {SCHEMA}"
        raise ArgumentError(message("bench", f"{path}: {error}", expected)) from error


def latest(path: Path, device: str) -> RaceRecord:
    """The record in a file, or of a folder's records the last one of a device.

    Cases that it lacks come from the records before it, so that items may be run by themselves.
    """
    if not path.is_dir():
        return load(path)
    records = [load(each) for each in sorted(path.glob("*.json"))]
    fitting = [record for record in records if record.device["name"] == device]
    if not fitting:
        given = f"{len(records)} records in {path}, none of {device}"
        raise ArgumentError(message("bench", given, "a record of the same device"))
    by_case = {
        (result.item, result.case): result
        for record in sorted(fitting, key=lambda each: each.date)
        for result in record.results
    }
    last = max(fitting, key=lambda each: each.date)
    return replace(last, results=tuple(by_case.values()))
