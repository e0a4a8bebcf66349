"""Merges the records of one release: of each check on a device in a dtype the newest counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, final

from netcl_plugin_kit.testing.records import (
    LEVELS,
    CheckRecord,
    DeviceFacts,
    KernelSource,
    Level,
    Mutants,
    Outcome,
    Roofline,
)
from packaging.version import InvalidVersion, Version

from netcl_plugin_tools.catalogue.evidence import when

#: One word for several checks: a failure outweighs all, a pass what was left out.
WORDS: Final = ("failed", "passed", "xfailed", "skipped")
NO_RECORD: Final = "none"
#: What the level `full` adds that a badge speaks of; a figure of speed is none of it.
_PROOF: Final = frozenset({"sanitizer", "mutants"})
#: Of several outcomes of one check, as of an op's cases, the worst is told.
_WORST_FIRST: Final = ("failed", "xfailed", "skipped", "passed")


@final
@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A device as records of different machines tell it apart."""

    platform: str
    name: str
    driver: str
    kind: str

    @property
    def title(self) -> str:
        """The runtime, which is what differs most; NumPy has none."""
        return self.platform or self.name


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One outcome with the device that it is of, and the record that it stands in."""

    outcome: Outcome
    where: Where | None
    date: str
    core: str


@final
@dataclass(frozen=True, slots=True)
class FoundKernel:
    """One source, and the devices for which it came out the same."""

    op: str
    dtype: str
    direction: str
    language: str
    source: str
    where: tuple[Where, ...]


def reached(record: CheckRecord) -> Level:
    """The level that a record's outcomes amount to: `--only` leaves out most of one."""
    level: Level = "run" if any(one.device for one in record.outcomes) else "static"
    if {*record.parts} >= _PROOF:
        level = "full"
    return min(level, record.level, key=LEVELS.index)


@final
@dataclass(frozen=True, slots=True)
class Findings:
    """What all records of one release say together."""

    records: tuple[CheckRecord, ...] = ()
    outcomes: tuple[Finding, ...] = ()
    kernels: tuple[FoundKernel, ...] = ()
    mutants: tuple[Mutants, ...] = ()
    roofline: tuple[tuple[Where, Roofline], ...] = ()

    @property
    def devices(self) -> list[Where]:
        """Where something was checked or measured."""
        places = {one.where for one in self.outcomes if one.where}
        return sorted(places | {where for kernel in self.kernels for where in kernel.where})

    @property
    def deepest(self) -> CheckRecord | None:
        """The newest record of the highest level that one has reached."""
        return max(
            self.records, key=lambda one: (LEVELS.index(reached(one)), _age(one)), default=None
        )

    @property
    def notes(self) -> list[str]:
        """What the records remark."""
        return sorted({note for record in self.records for note in record.notes})

    def of(self, op: str) -> Findings:
        """Those of one op."""
        return Findings(
            (),  # these are of all ops
            tuple(one for one in self.outcomes if one.outcome.op == op),
            tuple(one for one in self.kernels if one.op == op),
            tuple(one for one in self.mutants if one.op == op),
            tuple(pair for pair in self.roofline if pair[1].op == op),
        )

    @property
    def verdict(self) -> str:
        """`failed` if anything failed, `none` if nothing was said."""
        if self.records and self.records[0].state == "fail":
            return "failed"  # also one that broke off before its first outcome
        return verdict(one.outcome.state for one in self.outcomes)


def verdict(states: Iterable[str]) -> str:
    """The one of WORDS for several states, `none` for no state."""
    there = set(states)
    return next((state for state in WORDS if state in there), NO_RECORD)


def merge(records: Sequence[CheckRecord]) -> Findings:
    """What records say together: of two that speak of the same the one of the newer core counts,
    of one core the newer."""
    ordered = sorted(records, key=_age)
    outcomes: dict[tuple[str, str, Where | None, str], Finding] = {}
    kernels: dict[tuple[str, str, str, Where], KernelSource] = {}
    mutants: dict[str, Mutants] = {}
    roofline: dict[tuple[str, Where, str], Roofline] = {}
    for record in ordered:
        places = {facts.id: _where(facts) for facts in record.devices}
        outcomes |= _outcomes(record, places)
        for source in record.kernels:
            place = places.get(source.device, _unknown(source.device))
            kernels[source.op, source.dtype, source.direction, place] = source
        mutants |= {mutant.op: mutant for mutant in record.mutants}
        for each in record.roofline:
            place = places.get(each.device, _unknown(each.device))
            roofline[each.op, place, each.dtype] = each
    return Findings(
        tuple(reversed(ordered)),
        tuple(outcomes[key] for key in sorted(outcomes, key=_order)),
        tuple(_grouped(kernels)),
        tuple(mutants[op] for op in sorted(mutants)),
        tuple((key[1], roofline[key]) for key in sorted(roofline)),
    )


def _outcomes(
    record: CheckRecord, places: dict[str, Where]
) -> dict[tuple[str, str, Where | None, str], Finding]:
    """A record's outcomes; of several for the same, as of an op's cases, the worst."""
    outcomes: dict[tuple[str, str, Where | None, str], Finding] = {}
    for one in record.outcomes:
        place = places.get(one.device, _unknown(one.device)) if one.device else None
        key = (one.op, one.check, place, one.dtype)
        before = outcomes.get(key)
        if before is None or _rank(one) < _rank(before.outcome):
            outcomes[key] = Finding(one, place, record.date, record.core)
    return outcomes


def _rank(outcome: Outcome) -> int:
    return _WORST_FIRST.index(outcome.state)


def _age(record: CheckRecord) -> tuple[Version, datetime, str]:
    try:
        core = Version(record.core)
    except InvalidVersion:
        core = Version("0")
    return core, when(record.date), repr(record)


def _order(key: tuple[str, str, Where | None, str]) -> tuple[str, str, bool, Where, str]:
    op, check, place, dtype = key
    return op, check, place is not None, place or _unknown(""), dtype


def _grouped(kernels: dict[tuple[str, str, str, Where], KernelSource]) -> Iterable[FoundKernel]:
    """Equal sources are shown once, with all their devices."""
    groups: dict[tuple[str, str, str, str, str], list[Where]] = {}
    for op, dtype, direction, place in sorted(kernels):
        source = kernels[op, dtype, direction, place]
        key = (op, dtype, direction, source.language, source.source)
        groups.setdefault(key, []).append(place)
    for key, places in groups.items():
        yield FoundKernel(*key, where=tuple(places))


def _where(facts: DeviceFacts) -> Where:
    return Where(facts.platform, facts.name, facts.driver, facts.kind)


def _unknown(device: str) -> Where:
    """A device that a record names without describing it."""
    return Where("", device, "", "")
