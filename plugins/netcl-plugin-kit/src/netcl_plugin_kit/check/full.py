"""The level `full` of a check: the sanitizer, mutants, and how fast ops are beside a copy."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, final

from netcl_core import Device
from netcl_core.plugins.protocol import Row
from netcl_plugin_kit.check.roofline import ENOUGH, rooflines
from netcl_plugin_kit.check.roofline import verdicts as slow
from netcl_plugin_kit.faults.kernel_mutants import run_kernel_mutants
from netcl_plugin_kit.faults.mutants import (
    WANTED,
    MutantVerdict,
    rows_of,
    run_mutants,
    summary,
)
from netcl_plugin_kit.faults.policy_faults import run_policy_mutants
from netcl_plugin_kit.faults.sanitizer import MISSING, NO_KERNEL, command, sanitize
from netcl_plugin_kit.speed.overrides import check_overrides
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.records import Mutants, Outcome, Roofline
from netcl_plugin_kit.testing.reference import lacking
from netcl_plugin_kit.testing.running import Progress

#: The names of what this level does, for `only`.
NAMES: Final = ("sanitizer", "mutants", "roofline", "speed")
#: What measures times, which nothing may run beside.
TIMED: Final = frozenset({"roofline", "speed"})
#: How many missed mutants an outcome names; a record holds all.
_NAMED: Final = 10


@final
@dataclass(frozen=True)
class FullResult:
    """What the level found; `mutants` has a row per op, `roofline` one per op and device.

    It is `whole` if all of it ran: the simulator built and ran every kernel, and speed was measured
    at a million elements somewhere.
    """

    outcomes: list[Outcome]
    mutants: list[Mutants]
    roofline: list[Roofline]
    whole: bool = True


def full_level(
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
    only: Collection[str] = (),
) -> FullResult:
    """Sanitize a plugin's ops, break them in turn, and time them, overrides beside the others.

    Args:
        table: The plugin's cases.
        devices: Kernel mutants run on the first OpenCL device, the timing on all.
        progress: Is told what comes next.
        only: Names from NAMES; empty: all.
    """
    wanted = only or NAMES
    outcomes = sanitize(table, progress) if "sanitizer" in wanted else []
    verdicts: list[MutantVerdict] = []
    if "mutants" in wanted:
        start = time.perf_counter()
        verdicts = run_all(rows_of(table), table, devices, progress)
        outcomes.append(_outcome(table, verdicts, devices, time.perf_counter() - start))
    outcomes += check_overrides(table, devices, progress) if "speed" in wanted else []
    rooflines_measured = rooflines(table, devices, progress) if "roofline" in wanted else []
    outcomes += slow(rooflines_measured)
    whole = {
        "sanitizer": not any(map(_unrun, outcomes)),
        "roofline": not table.cases
        or any(roofline.elements >= ENOUGH for roofline in rooflines_measured),
    }
    return FullResult(
        outcomes, summary(verdicts), rooflines_measured, all(whole.get(x, True) for x in wanted)
    )


def _unrun(outcome: Outcome) -> bool:
    """Whether the simulator has not run what it was given: a check that did not run is no pass."""
    skipped = outcome.check == "sanitizer" and outcome.state == "skipped"
    return skipped and outcome.reason != NO_KERNEL


def run_all(
    rows: Sequence[Row],
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
    *,
    thorough: bool = True,
) -> list[MutantVerdict]:
    """Every mutant of ops and policies: of expressions, wrappers and rules, then of kernels.

    They meet the checks of the level run; those of pytest's suite unless it is `thorough`.
    """
    verdicts: list[MutantVerdict] = []
    for done, row in enumerate(rows):
        # Each step is news: who listens may have a patience.
        alive = partial(progress, f"mutants: {row.record.name}", done, len(rows))
        verdicts += run_mutants(row, table, thorough=thorough, alive=alive)
    for verdict in run_policy_mutants(table):
        progress(f"mutants: {verdict.op}", len(rows), len(rows))
        verdicts.append(verdict)
    place = _where(devices)
    return verdicts + run_kernel_mutants(rows, table, place, progress, thorough=thorough)


def _where(devices: Sequence[Device]) -> Device | None:
    usable = (device for device in devices if device.has_kernels and not device.simulator)
    return next(usable, None)


def _outcome(
    table: Table, verdicts: Sequence[MutantVerdict], devices: Sequence[Device], seconds: float
) -> Outcome:
    """One for the whole plugin: failed, if too few of its mutants were caught.

    Skipped, if that is no wonder: what an op is compared with is not installed.
    """
    seconds = round(seconds, 3)
    if not verdicts:
        reason = "the plugin has nothing in which a fault could be seeded"
        return Outcome("mutants", "skipped", reason=reason, seconds=seconds)
    missed = [verdict for verdict in verdicts if not verdict.caught_by]
    share = 1 - len(missed) / len(verdicts)
    lines = [f"{len(verdicts) - len(missed)} of {len(verdicts)} seeded faults caught"]
    lines += [f"missed: {mutant.op}: {mutant.kind}: {mutant.text}" for mutant in missed[:_NAMED]]
    lines += [f"and {len(missed) - _NAMED} more"] if len(missed) > _NAMED else []
    lines += _notes(devices)
    trusted = [case.op for case in table.cases if case.torch is not None and lacking(case)]
    if trusted:
        names = [*dict.fromkeys(trusted)]
        some = f"{', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''}"
        why = "compared with their own NumPy path, which a fault changes, too"
        lines.append(f"since PyTorch is not installed, {why}: {some}")
    if share >= WANTED:
        return Outcome("mutants", "passed", reason="\n".join(lines), seconds=seconds)
    if trusted:
        return Outcome("mutants", "skipped", reason="\n".join(lines), seconds=seconds)
    remedy = "Add cases whose inputs reach what the missed faults change: edges, ties, each branch"
    return Outcome("mutants", "failed", "", "", "", "\n".join(lines), remedy, seconds)


def _notes(devices: Sequence[Device]) -> Iterator[str]:
    """Which faults were not seeded, because nothing here could notice them."""
    if command() is None:
        yield f"no overruns and races were seeded: {MISSING}"
    if _where(devices) is None:
        yield "no wrong broadcasts and bounds were seeded: there is no OpenCL device"
