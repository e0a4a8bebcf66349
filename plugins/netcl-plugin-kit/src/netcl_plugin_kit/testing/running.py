"""Runs the steps of a table: a failure becomes an outcome, never an exception."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias, final

from netcl_core import Device
from netcl_core.errors import KernelFindingError, NetclError, UnfitError, raised_at
from netcl_core.inspect.recorded import process
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.findings import KINDS
from netcl_plugin_kit.testing.guards import guarded
from netcl_plugin_kit.testing.records import KernelSource, Outcome, OutcomeState
from netcl_plugin_kit.testing.renderings import kernel_sources
from netcl_plugin_kit.testing.steps import CheckStep, steps_of
from netcl_plugin_kit.testing.vocabulary import CHECKS

#: What is being done, how much of it is done, and how much there is.
Progress: TypeAlias = Callable[[str, int, int], None]
#: A worse one hides a better one, where several cases make one outcome.
_WORST_FIRST: Final[Sequence[OutcomeState]] = ("failed", "xfailed", "passed", "skipped")
#: The beginning and the end of a text that is too long: a build log's end matters.
_BEGINNING: Final = 900
_END: Final = 500


class StepFailure(NamedTuple):
    """What went wrong, nothing if the reason is empty; a remedy of None is the check's own.

    Nobody can expect a `grave` one: a write out of bounds spoils more than the op itself. One that
    is `unmade` is no failure: what is under test refuses what was to be checked.
    """

    reason: str = ""
    remedy: str | None = None
    grave: bool = False
    unmade: str = ""


@final
@dataclass(frozen=True)
class RunResult:
    """What a run of a table came to: one outcome per check, op, device and dtype.

    >>> from netcl_plugin_kit.testing import run_level, table_of
    >>> table, numpy = table_of("netcl-plugin-detection"), nc.get_device("numpy")
    >>> result = run_level(table, [numpy], only=["gradient"])
    >>> {outcome.state for outcome in result.outcomes}, result.kernels
    ({'passed'}, [])
    """

    outcomes: list[Outcome]
    kernels: list[KernelSource]


def run_level(
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
    *,
    only: Collection[str] = (),
    found: Callable[[Sequence[Outcome]], None] = lambda outcomes: None,
) -> RunResult:
    """Make every check of a table on every device in every dtype.

    >>> table = Table("mine", [Case("sin", [normal()], reference=np.sin)])
    >>> result = run_level(table, [nc.get_device("numpy")], only=["gradient"])
    >>> [(each.check, each.op, each.state) for each in result.outcomes]
    [('gradient', 'sin', 'passed')]

    Args:
        table: The plugin's cases.
        devices: Where; the NumPy path too, if it is among them.
        progress: Is told what comes next.
        only: The names of the checks to make; empty: all.
        found: Is told each step's outcomes at once, as they are before `merged`.
    """
    steps = [step for step in steps_of(table, devices) if not only or step.check in only]
    outcomes: list[Outcome] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, step in enumerate(steps):
            progress(str(step), done, len(steps))
            performed = list(perform(step))
            found(performed)
            outcomes += performed
        progress("kernel sources", len(steps), len(steps))
        kernels = [] if only else kernel_sources(table, devices)
    return RunResult(merged(outcomes), kernels)


def perform(step: CheckStep) -> Iterator[Outcome]:
    """Make one check; an outcome per op, or per case where there are cases."""
    if step.skip:
        for op in step.ops:
            yield _outcome(step, op, "skipped", step.skip)
        return
    start = time.perf_counter()
    failure = _failure(step, step.cases)
    failures = [failure] * max(1, len(step.cases))
    if failure.reason and len(step.cases) > 1:  # whose fault is it?
        alone = [_failure(step, [case]) for case in step.cases]
        together = f"only together with its neighbours: {failure.reason}"
        if any(outcome.reason for outcome in alone):
            failures = alone
        else:
            failures = [StepFailure(together, failure.remedy, failure.grave)] * len(alone)
    seconds = (time.perf_counter() - start) / len(failures)
    if not step.cases:
        state: OutcomeState = "failed" if failure.reason else "passed"
        yield _outcome(step, step.op, state, failure.reason, seconds, failure.remedy)
    for case, each in zip(step.cases, failures if step.cases else (), strict=True):
        state, reason = _judged(step, case, each)
        yield _outcome(step, case.op, state, reason, seconds, each.remedy)


def _judged(step: CheckStep, case: Case, failure: StepFailure) -> tuple[OutcomeState, str]:
    """The state of a case's check, with what it failed by, or was expected to fail by."""
    reason = failure.reason
    expected = case.expected_failure(step.check, step.device, step.dtype)
    if failure.unmade:
        return "skipped", failure.unmade
    if expected is None or failure.grave:
        return ("failed", reason) if reason else ("passed", "")
    if reason:
        return "xfailed", expected
    return "failed", f"{case} was expected to fail ({expected}), but passes; remove it from xfail="


def _outcome(
    step: CheckStep,
    op: str,
    state: OutcomeState,
    reason: str,
    seconds: float = 0.0,
    remedy: str | None = None,
) -> Outcome:
    """An outcome of a step; a failed one's remedy is the check's unless there is a better one."""
    device = "" if step.device is None else step.device.id
    if state != "failed":
        remedy = ""
    elif remedy is None:
        remedy = CHECKS[step.check].remedy
        for name, value in (("OP", op), ("D", device), ("T", step.dtype)):
            remedy = re.sub(rf"\b{name}\b", value or name, remedy)
    return Outcome(step.check, state, op, device, step.dtype, reason, remedy, seconds)


def _failure(step: CheckStep, cases: Sequence[Case]) -> StepFailure:
    """What goes wrong in a check; a kernel's write out of bounds before what follows from it."""
    with guarded(step.device) as guard, _nothing_unread():
        failure = _raised(step, cases)
    if guard is not None and guard.finding is not None:
        return _found(guard.finding, f"{step}: ", grave=True)
    return failure


@contextmanager
def _nothing_unread() -> Iterator[None]:
    """A block in which graphs of small tensors, too, let go of what no gradient reads.

    A backward that reads what its record does not name then finds nothing there.
    """
    before, process.least = process.least, 0
    try:
        yield
    finally:
        process.least = before


def _raised(step: CheckStep, cases: Sequence[Case]) -> StepFailure:
    try:
        step.run(cases)
    except KernelFindingError as finding:
        return _found(finding)
    except UnfitError as error:
        reasons = {case.refusal(error) for case in cases}
        if cases and all(reasons):
            return StepFailure(unmade="; ".join(sorted(reasons)))
        return StepFailure(_short(f"{step}: {type(error).__name__}: {error}"), "")
    except AssertionError as error:
        return StepFailure(_short(str(error)) or "AssertionError without a text")
    except NetclError as error:  # its text ends with what to do
        return StepFailure(_short(f"{step}: {type(error).__name__}: {error}"), "")
    except (Exception, SystemExit) as error:  # an op may raise anything
        text = _short(f"{step}: {type(error).__name__}: {error}")
        place = raised_at(error)
        return StepFailure(text, f"Correct what raises it{f': {place}' if place else ''}")
    return StepFailure()


def _found(finding: KernelFindingError, where: str = "", *, grave: bool = False) -> StepFailure:
    text = f"{finding.code}: {where}{finding.text}"
    return StepFailure(_short(text), KINDS[finding.code].remedy, grave)


def _short(text: str) -> str:
    text = text.strip()
    if len(text) <= _BEGINNING + _END:
        return text
    return f"{text[:_BEGINNING]}\n...\n{text[-_END:]}"


def merged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """One outcome per check, op, device and dtype: the worst, and how many more failed."""
    by_place: dict[tuple[str, ...], list[Outcome]] = {}
    for outcome in outcomes:
        by_place.setdefault((outcome.check, outcome.op, outcome.device, outcome.dtype), []).append(
            outcome
        )
    return [_worst(group) for group in by_place.values()]


def _worst(group: Sequence[Outcome]) -> Outcome:
    worst = min(group, key=lambda each: _WORST_FIRST.index(each.state))
    failed = sum(outcome.state == "failed" for outcome in group)
    more = f" (and {failed - 1} more of its cases)" if failed > 1 else ""
    seconds = round(sum(outcome.seconds for outcome in group), 6)
    return replace(worst, reason=worst.reason + more, seconds=seconds)
