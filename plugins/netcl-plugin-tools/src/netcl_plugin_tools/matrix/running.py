"""Runs the cells of a matrix: each in its environment, each with a record, several at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from netcl_core.inspect.data import Scratch
from netcl_plugin_tools.matrix import judging
from netcl_plugin_tools.matrix.environments import Environments, Made
from netcl_plugin_tools.matrix.judging import CellVerdict
from netcl_plugin_tools.matrix.plan import MatrixTask, settled
from netcl_plugin_tools.matrix.processes import (
    Ended,
    Processes,
    StoppedError,
    clean_variables,
)
from netcl_plugin_tools.matrix.records import CellRecord, Watch, latest, load, now, save
from netcl_plugin_tools.matrix.runtimes import variables_for
from netcl_plugin_tools.matrix.supplies import Supplies, Supply


@final
@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell with the record that counts for it; `kept`: from an earlier run."""

    record: CellRecord
    kept: bool


@final
@dataclass(frozen=True, slots=True)
class Runner:
    """What all cells of a run share."""

    processes: Processes
    supplies: Supplies
    environments: Environments
    links: Path
    records: Path
    timeout: float
    rerun: Sequence[str]
    watch: Watch

    def run(self, tasks: Sequence[MatrixTask], jobs: int) -> list[CellResult]:
        """Run every cell that has no record yet; an interrupt leaves the finished ones.

        Raises KeyboardInterrupt after the children have ended.
        """
        known = latest(load(self.records)[0])  # a broken one is run again
        with ThreadPoolExecutor(jobs) as pool:
            try:
                waiting = [pool.submit(self._cell, task, known.get(task.cell)) for task in tasks]
                _wait(waiting)
            except BaseException:
                self.processes.stop()
                pool.shutdown(cancel_futures=True)
                raise
        return [future.result() for future in waiting]

    def _cell(self, task: MatrixTask, record: CellRecord | None) -> CellResult:
        problem = _known_problem(task)
        supply = Supply() if problem else self.supplies.provide(task.python, task.choice.others)
        content = task.content(supply.digest)
        kept = settled(content, record, self.rerun)
        if not kept or record is None:
            self.watch(task.cell, None, False)
            begun = time.monotonic()
            verdict, environment = (problem, Made()) if problem else self._made(task, supply)
            record = _record(task, verdict, environment, content, time.monotonic() - begun)
            save(record, self.records)
        self.watch(task.cell, record, kept)
        return CellResult(record, kept)

    def _made(self, task: MatrixTask, supply: Supply) -> tuple[CellVerdict, Made]:
        """Make the environment and check there."""
        if supply.problem:
            return _not_made(supply), Made()
        environment = self.environments.environment(
            task.python, supply, task.wheels, self.links, task.named
        )
        if environment.problem:
            return _not_made(environment), environment
        with Scratch("matrix") as work:
            return self._check(task, environment, Path(work)), environment

    def _check(self, task: MatrixTask, environment: Made, work: Path) -> CellVerdict:
        """Run the check as a user would, in an empty folder, with nothing cached."""
        command = ["plugins", "check", task.cell.plugin, "--json"]
        if task.presence.runtime.tool:
            command += ["--level", "full", "--only", "sanitizer"]
        else:
            command += ["--level", task.cell.level]
            command += ["--device", task.presence.spec] if task.cell.level != "static" else []
        ended = self._netcl(task, environment, work, command)
        verdict = judging.of_check(task.cell, ended, task.presence)
        if verdict is None:
            devices = self._netcl(task, environment, work, ["devices", "--json"])
            verdict = judging.of_devices(ended, _devices(devices), task.presence)
        return verdict

    def _netcl(
        self, task: MatrixTask, environment: Made, work: Path, command: Sequence[str]
    ) -> Ended:
        alone = variables_for(task.presence.vendors, work / "cache")
        program = environment.program("netcl")
        python = Path(environment.program("python").resolve()).parent.parent
        return self.processes.run(
            [program, *command],
            work,
            {**clean_variables(), **alone},
            self.timeout,
            readable=[self.environments.folder.parent, python, task.presence.vendors],
            writable=[work],
        )


def _wait(waiting: Sequence[Future[CellResult]]) -> None:
    """Until all are done; what one of them raises is raised at once."""
    for future in as_completed(waiting):
        try:
            future.result()
        except StoppedError:
            raise KeyboardInterrupt from None


def _known_problem(task: MatrixTask) -> CellVerdict | None:
    """What is known of a cell before anything of it is made."""
    if task.python.problem:
        return CellVerdict("setup_error", task.python.problem)
    if task.choice.problem:
        return CellVerdict("unsupported", task.choice.problem)
    if task.presence.missing:
        return CellVerdict("unsupported", task.presence.missing)
    if task.presence.problem:
        # Its last line is said, too, but is no part of the content: it may name a temporary folder.
        verdict = _with_log("setup_error", task.presence.problem)
        last = verdict.log.strip().rpartition("\n")[2]
        return replace(verdict, reason=f"{verdict.reason}: {last}" if last else verdict.reason)
    return judging.of_device(task.plugin.manifest, task.presence)


def _not_made(source: Supply | Made) -> CellVerdict:
    return _with_log("unsupported" if source.excluded else "setup_error", source.problem)


def _with_log(state: Any, text: str) -> CellVerdict:
    reason, _, log = text.partition("\n")
    return CellVerdict(state, reason, log)


def _devices(ended: Ended) -> Mapping[str, Any]:
    """What `netcl devices --json` said; nothing if it failed too."""
    try:
        devices: Mapping[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return {}
    return devices


def _record(
    task: MatrixTask,
    verdict: CellVerdict,
    environment: Made,
    content: Mapping[str, str],
    seconds: float,
) -> CellRecord:
    cell, facts = task.cell, task.presence.facts
    for device in verdict.check.devices if verdict.check is not None else ():
        if device.platform == facts["platform"]:  # as it is in the cell's own environment
            facts |= {"driver": device.driver, "device": device.name}
    place = {**asdict(cell), "runtime": facts}
    return CellRecord(
        **place,
        state=verdict.state,
        date=now(),
        reason=verdict.reason,
        log=verdict.log,
        seconds=round(seconds, 3),
        packages=dict(environment.packages),
        content=dict(content),
        check=verdict.check,
    )
