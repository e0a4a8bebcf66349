"""Kernel mutants: faults in an elementwise op's real kernels, run on a device and in Oclgrind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from netcl_core.autograd.primitives import AutogradPrimitive
from netcl_core.device import Device
from netcl_core.registry import Row
from netcl_core.testing.kernel_faults import SIMULATED, KernelFault, kernel_faults, seeded
from netcl_core.testing.mutants import Verdict, cases_of, checks_on, fails
from netcl_core.testing.poison import poisoned
from netcl_core.testing.results import Table
from netcl_core.testing.sanitizer import SOURCE, Job, Progress, command, simulate
from netcl_core.testing.substitution import substituted

#: Noticed by values on a device; the other kinds by the sanitizer alone.
_ON_DEVICE: Final = "values on a device"
_IN_SIMULATOR: Final = "sanitizer"


def run_kernel_mutants(
    rows: Sequence[Row],
    table: Table,
    device: Device | None,
    progress: Progress = lambda what, done, total: None,
    *,
    source: str = SOURCE,
) -> list[Verdict]:
    """Every kernel fault of some elementwise ops that changes a kernel which their cases run.

    Args:
        rows: The ops; those without a case of their own are left out.
        table: The cases.
        device: Where wrong values are looked for; None: there is no OpenCL device.
        progress: Is told which op comes next.
        source: Where Oclgrind's process gets the table from.
    """
    found: list[Verdict] = []
    waiting: list[KernelFault] = []
    faulty = [(row, fault) for row in rows for fault in _faults(row, table)]
    for done, (row, fault) in enumerate(faulty):
        if fault.kind in SIMULATED or device is None:
            waiting.append(fault)
            continue
        progress(f"mutants: {fault.op} on {device}", done, len(faulty))
        caught, changed = _on_device(row, fault, table, device)
        if changed and caught:
            found.append(Verdict(fault.op, fault.kind, fault.text, _ON_DEVICE))
        elif changed:
            waiting.append(fault)
    return found + (_simulated(table, waiting, progress, source) if command() is not None else [])


def _faults(row: Row, table: Table) -> Iterator[KernelFault]:
    own = [case for case in cases_of(row, table) if case.op == row.record.name]
    if isinstance(row.record, AutogradPrimitive) and own:
        yield from kernel_faults(row.record, max(len(case.inputs) for case in own))


def _on_device(row: Row, fault: KernelFault, table: Table, device: Device) -> tuple[bool, bool]:
    """Whether the checks on a device notice a fault, and whether they ran a kernel with it."""
    with substituted(row, replace(row.record)), seeded(fault) as changed, poisoned(device):
        caught = any(fails(check) for _, check in checks_on(row, table, device)())
    return caught, bool(changed)


def _simulated(
    table: Table, faults: Sequence[KernelFault], progress: Progress, source: str
) -> list[Verdict]:
    """What Oclgrind says of faults, all in one process."""
    jobs = [Job(fault.op, fault) for fault in faults]
    results = simulate(table.provider, jobs, progress, source=source)
    return [
        Verdict(
            fault.op,
            fault.kind,
            fault.text,
            _IN_SIMULATOR if result.finding or result.error else "",
        )
        for fault, result in zip(faults, results, strict=True)
        if result.changed or result.error
    ]
