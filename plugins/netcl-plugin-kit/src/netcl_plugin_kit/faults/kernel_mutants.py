"""Kernel mutants: faults in an elementwise op's real kernels, run on a device and in Oclgrind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from netcl_core import Device
from netcl_core.autograd import AutogradPrimitive
from netcl_core.plugins.protocol import Row
from netcl_plugin_kit.faults.kernel_faults import (
    SIMULATED,
    KernelFault,
    kernel_faults,
    seeded,
)
from netcl_plugin_kit.faults.mutants import MutantTrial, MutantVerdict
from netcl_plugin_kit.faults.sanitizer import Simulated, SimulatorJob, command, simulate
from netcl_plugin_kit.faults.substitution import substituted
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.running import Progress

_SANITIZER: Final = "sanitizer"


def run_kernel_mutants(
    rows: Sequence[Row],
    table: Table,
    device: Device | None,
    progress: Progress = lambda what, done, total: None,
    *,
    thorough: bool = True,
) -> list[MutantVerdict]:
    """Every kernel fault of some elementwise ops that changes a kernel which their checks run.

    Overruns and races meet Oclgrind first, the others the device; what the first does not
    notice meets the second. Without either the faults that are meant for it are not seeded.

    Args:
        rows: The ops; those without a case of their own are left out.
        table: The cases.
        device: Where wrong values are looked for; None: there is no OpenCL device.
        progress: Is told which op comes next.
        thorough: By all checks, and in Oclgrind; else by those of pytest's suite on the device.
    """
    faulty = [(row, fault) for row in rows for fault in _faults(row, table)]
    simulator = thorough and command() is not None
    hidden = [fault for fault in faulty if fault[1].kind in SIMULATED] if simulator else []
    plain = [fault for fault in faulty if fault[1].kind not in SIMULATED] if device else []
    verdicts = dict(_simulated(table, hidden, progress))
    left = [(row, fault) for row, fault in hidden if verdicts.get(fault) == ""]
    if not thorough:
        left = [fault for fault in faulty if fault[1].kind in SIMULATED]
    seen = dict(_on_device(table, plain + left, device, progress, thorough)) if device else {}
    verdicts |= {fault: check for fault, check in seen.items() if check or fault not in verdicts}
    left = [(row, fault) for row, fault in plain if verdicts.get(fault) == ""]
    if simulator:
        verdicts |= dict(_simulated(table, left, progress))
    return [
        MutantVerdict(fault.op, fault.kind, fault.text, check) for fault, check in verdicts.items()
    ]


def _faults(row: Row, table: Table) -> Iterator[KernelFault]:
    own = table.cases_of(row.record.name)
    if isinstance(row.record, AutogradPrimitive) and own:
        yield from kernel_faults(row.record, max(len(case.inputs) for case in own))


def _on_device(
    table: Table,
    faulty: Sequence[tuple[Row, KernelFault]],
    device: Device,
    progress: Progress,
    thorough: bool,
) -> Iterator[tuple[KernelFault, str]]:
    """Each fault that is in a kernel which the checks on a device run, with what caught it."""
    trials: dict[Row, MutantTrial] = {}
    for done, (row, fault) in enumerate(faulty):
        trial = trials.get(row) or MutantTrial(row, table, device, thorough=thorough)
        trials[row] = trial
        trial.alive = partial(progress, f"mutants: {fault.op} on {device}", done, len(faulty))
        changed: list[str] = []
        caught = trial.caught_by(partial(_spoiled, row, fault, device, changed))
        if changed:
            yield fault, caught


@contextmanager
def _spoiled(row: Row, fault: KernelFault, device: Device, changed: list[str]) -> Iterator[None]:
    """An op whose kernels are planned anew, with a fault; `changed` takes their sources."""
    with substituted(row, replace(row.record)), seeded(fault, device) as stream:
        yield
        changed += stream.changed


def _simulated(
    table: Table, faulty: Sequence[tuple[Row, KernelFault]], progress: Progress
) -> Iterator[tuple[KernelFault, str]]:
    """The same of Oclgrind, all faults in one process; nothing counts that it says without one."""
    if not faulty:
        return
    faults = [fault for _, fault in faulty]
    sound = list(dict.fromkeys(fault.op for fault in faults))
    jobs = [
        *(SimulatorJob(op) for op in sound),
        *(SimulatorJob(fault.op, fault) for fault in faults),
    ]
    results = simulate(table.provider, jobs, progress)
    complaints = {op for op, result in zip(sound, results, strict=False) if _complains(result)}
    for fault, result in zip(faults, results[len(sound) :], strict=True):
        if result.changed or result.error:
            caught = _complains(result) and fault.op not in complaints
            yield fault, _SANITIZER if caught else ""


def _complains(result: Simulated) -> bool:
    return bool(result.finding or result.error)
