"""The sanitizer: a plugin's ops under Oclgrind, which sees overruns, races and unset values.

The ops run in a child process, because Oclgrind takes the place of the OpenCL runtime. What
it finds stands in its log, while its exit code stays 0.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, final

from netcl_market import child_processes
from netcl_market.child_processes import ended, last_words
from netcl_market.patience import Patience

from netcl_core import config
from netcl_core.inspect.data import Scratch
from netcl_core.inspect.runtimes import discover
from netcl_plugin_kit.faults.kernel_faults import KernelFault
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.findings import KINDS as FINDINGS
from netcl_plugin_kit.testing.findings import FindingKind
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import Progress

#: How a device's kind shapes the kernels; the simulator plays both.
KINDS: Final = ("cpu", "gpu")
#: Unoptimised, because Oclgrind lacks some vector intrinsics that the optimiser makes.
_SETTINGS: Final = {
    "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNINITIALIZED": "1",
    "OCLGRIND_NUM_THREADS": "1",
    "OCLGRIND_MAX_ERRORS": "100000000",
}
#: Seconds without news, which come with each call of an op, after which a simulator is ended, and
#: those between two looks at it.
_PATIENCE: Final = 100.0
_LOOK: Final = 1.0
MISSING: Final = (
    "oclgrind is not installed (pip install 'netcl-plugin-kit[check]', or Debian's oclgrind)"
)
#: With what the reason begins where no op was run at all.
NO_START: Final = "the simulator did not start: "
#: The reason where there is nothing to run.
NO_KERNEL: Final = "it launches no kernel"
_KERNEL: Final = re.compile(r"Kernel:\s*(\S+)")
#: Between findings: a line that is not indented begins one.
BLOCK: Final = re.compile(r"\n(?=\S)")
#: The beginnings of a simulator's findings, and what they are, causes before what they lead to.
_CODES: Final = (
    (r"data race at local", "NC715"),
    (r"data race", "NC711"),
    (r"divergence", "NC712"),
    (r"Invalid write", "NC701"),
    (r"Invalid read", "NC714"),
    (r"[Uu]ninitialized", "NC713"),
)
_LINE: Final = re.compile(r"At line (\d+)[^\n]*\n\s*([^\n]*)")


def command() -> list[str] | None:
    """What stands before a program to run it in Oclgrind; None: it is not installed.

    Nothing, where Oclgrind is among the runtimes that pip installed: its device is asked for.
    """
    own = str(Path(sys.executable).parent)
    tool = shutil.which("oclgrind") or shutil.which("oclgrind", path=own)
    if tool is not None:
        return [tool]
    listed = any(runtime.accepted and "oclgrind" in runtime.name.lower() for runtime in discover())
    return [] if listed else None


def environment(log: Path) -> dict[str, str]:
    """The variables of a process that runs in Oclgrind: what it looks for, and its log."""
    return {**config.environment(cache="0"), **_SETTINGS, "OCLGRIND_LOG": str(log)}


@final
@dataclass(frozen=True, slots=True)
class SimulatorJob:
    """An op to run, with a fault in one of its kernels or as it is; or a scenario.

    An op runs with the kernels of every kind of device, a scenario with those of `kind`.
    """

    op: str
    fault: KernelFault | None = None
    kind: str = ""


@final
@dataclass(frozen=True, slots=True)
class Simulated:
    """What came of a job; at most one of finding, error and unfit is not empty.

    Attributes:
        launched: How many kernels ran.
        changed: How many programs were built with the job's fault.
        finding: What the simulator found, in its words.
        error: What the op raised, or how the simulator ended.
        unfit: Why the simulator cannot run the op, or some of its kernels.
        label: The call with which it happened.
    """

    launched: int = 0
    changed: int = 0
    finding: str = ""
    error: str = ""
    unfit: str = ""
    label: str = ""
    seconds: float = field(default=0.0, compare=False)

    def badness(self) -> int:
        """The worst of several results has the most of it."""
        return 3 * bool(self.finding) + 2 * bool(self.error) + bool(self.launched)

    @property
    def text(self) -> str:
        """The finding with its kernel and line, in one line of text."""
        if not self.finding:
            return self.error or self.unfit
        lines = [line.strip() for line in self.finding.splitlines() if line.strip()]
        what = re.sub(r" (?:at|to) \w+ memory address \w+", "", lines[0])
        kernel, line = _KERNEL.search(self.finding), _LINE.search(self.finding)
        place = f" in kernel {kernel[1]}" if kernel else ""
        at = f", line {line[1]}: {line[2].strip()}" if line else ""
        return f"{what}{place}{at} ({self.label})"


def sanitize(
    table: Table,
    progress: Progress = lambda what, done, total: None,
    *,
    ops: Sequence[str] = (),
) -> list[Outcome]:
    """Run a plugin's cases, forward and backward, and its scenarios, and say what Oclgrind finds.

    Args:
        table: The plugin's cases.
        progress: Is told which op comes next.
        ops: The ops to run; default: all that have a case, and the scenarios.
    """
    called = list(ops) or table.ops
    played = [] if ops else [str(scenario) for scenario in table.scenarios if scenario.simulated]
    names = [*called, *played]
    if command() is None:
        return [Outcome("sanitizer", "skipped", op, reason=MISSING) for op in names]
    simulated = simulate(table.provider, [SimulatorJob(op) for op in called], progress)
    kinds = [
        simulate(table.provider, [SimulatorJob(name, kind=kind) for name in played], progress)
        for kind in KINDS
    ]
    simulated += [_of_both(pair) for pair in zip(*kinds, strict=True)]
    return [_outcome(op, result) for op, result in zip(names, simulated, strict=True)]


def _cause(finding: str) -> tuple[FindingKind | None, str]:
    """Of what a simulator found at once that which explains the rest, and its kind if it has one.

    A missing barrier is first seen by values that are not there yet.
    """
    blocks = [block for block in BLOCK.split(finding) if block.strip()]
    for words, code in _CODES:
        for block in blocks:
            if re.search(words, block.strip().partition("\n")[0]):
                return FINDINGS[code], block
    return None, finding


def _of_both(kinds: Sequence[Simulated]) -> Simulated:
    """What came of a scenario as every kind of device: the worst, or all that was not run."""
    worst = max(kinds, key=Simulated.badness)
    if worst.finding or worst.error:
        return worst
    unfit = [f"{kind.unfit} ({kind.label})" for kind in kinds if kind.unfit]
    return replace(worst, unfit="; ".join(unfit))


def _outcome(op: str, result: Simulated) -> Outcome:
    seconds = round(result.seconds, 3)
    if result.finding:
        kind, finding = _cause(result.finding)
        code = f"{kind.code}: " if kind else ""
        remedy = " ".join(
            [*([kind.remedy] if kind else []), f"`netcl kernels show {op}` prints the kernel"]
        )
        text = code + replace(result, finding=finding).text
        return Outcome("sanitizer", "failed", op, "oclgrind", "", text, remedy, seconds)
    if result.error:
        return Outcome("sanitizer", "failed", op, "oclgrind", "", result.text, "", seconds)
    if not result.launched:
        reason = result.unfit or NO_KERNEL
        return Outcome("sanitizer", "skipped", op, "oclgrind", "", reason, "", seconds)
    reason = f"not all of it was run: {result.unfit}" if result.unfit else ""
    return Outcome("sanitizer", "passed", op, "oclgrind", "", reason, "", seconds)


# -- the child -------------------------------------------------------------------------


def simulate(
    provider: str,
    jobs: Sequence[SimulatorJob],
    progress: Progress = lambda what, done, total: None,
) -> list[Simulated]:
    """Run jobs in Oclgrind; one that ends the process costs only itself.

    Needs an installed Oclgrind, see `command`.
    """
    simulated: list[Simulated] = []
    with Scratch("sanitizer") as folder:
        while len(simulated) < len(jobs):

            def say(what: str, done: int, total: int, before: int = len(simulated)) -> None:
                progress(what, before + done, before + total)

            simulated += _one_process(Path(folder), provider, jobs[len(simulated) :], say)
    return simulated


def _one_process(
    folder: Path, provider: str, jobs: Sequence[SimulatorJob], progress: Progress
) -> list[Simulated]:
    """The results of as many jobs as one process lives for, the one that it died of included."""
    log, errors = folder / "oclgrind.log", folder / "errors.txt"
    log.unlink(missing_ok=True)
    request: dict[str, Any] = {"provider": provider, "path": sys.path, "log": str(log)}
    request["jobs"] = [asdict(job) for job in jobs]
    results: list[Simulated] = []
    started = False
    with (
        errors.open("w", encoding="utf-8") as file,
        child_processes.start(
            [*(command() or ()), sys.executable, "-m", "netcl_plugin_kit.faults.simulated"],
            writable=[folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            encoding="utf-8",
            variables=environment(log),
        ) as child,
    ):
        last = time.perf_counter()
        for news in _dialogue(child, json.dumps(request)):
            started = True
            begun = news.get("begin", news.get("alive"))
            if begun is not None:  # each call is news: who listens may have a patience, too
                progress(f"sanitizer: {jobs[begun].op}", begun, len(jobs))
            if "begin" in news:
                last = time.perf_counter()
            elif "end" in news:
                del news["end"]
                results.append(Simulated(**news, seconds=time.perf_counter() - last))
    if not started:
        unfit = f"{NO_START}{last_words(errors)}"
        return [Simulated(unfit=unfit)] * len(jobs)
    if len(results) < len(jobs):
        how = ended(child_processes.code_of(child))
        error = f"the simulator ended with {how}: {last_words(errors)}"
        results.append(Simulated(error=error))
    return results


def _dialogue(child: subprocess.Popen[str], request: str) -> Iterator[dict[str, Any]]:
    """The lines of a child's answer; a child that says nothing for long is ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it ended at once: its output says why
        child.stdin.write(f"{request}\n")
        child.stdin.flush()
    left, over = Patience(child.pid, _PATIENCE), threading.Event()

    def watch() -> None:
        while not over.wait(_LOOK):
            if left.over():
                child.kill()

    threading.Thread(target=watch, daemon=True).start()
    try:
        for line in child.stdout:
            left.renew()
            yield json.loads(line)
    finally:
        over.set()
