"""Results: what every op does on every device in every dtype, from a run of its cases."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, final

from netcl_core.autograd import verification
from netcl_core.autograd.primitives import AutogradPrimitive
from netcl_core.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.registry import OP_KINDS, registry
from netcl_core.testing.cases import Case
from netcl_core.testing.checks import check_case, check_derivative, check_gradient, check_refusal
from netcl_core.testing.fused import check_group, groups


@final
@dataclass(frozen=True)
class Table:
    """The cases of one plugin; `internal` says of other ops why they need none."""

    provider: str
    cases: Sequence[Case]
    internal: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """The plugin's ops that have neither a case nor a reason."""
        ours = {record.name for record in self._records()}
        return sorted(ours - {case.op for case in self.cases} - self.internal.keys())

    def wrong_gradients(self) -> list[str]:
        """Where a backward of the plugin is not its forward's derivative, and no case excuses it.

        Ops without a case are looked at too.
        """
        excused = {case.op for case in self.cases if case.excuse("derivative")}
        primitives = (each for each in self._records() if isinstance(each, AutogradPrimitive))
        kept = (each for each in primitives if each.name not in excused)
        return [str(finding) for each in kept for finding in verification.check_gradient(each)]

    def _records(self) -> list[Any]:
        registry.load()
        rows = [row for kind in OP_KINDS for row in registry.rows(kind)]
        return [row.record for row in rows if row.provider == self.provider]


@final
@dataclass(frozen=True)
class Result:
    """One cell: an op (all its cases) on a device in a dtype."""

    op: str
    device: Device
    dtype: str
    status: Literal["pass", "fail", "unsupported"]
    reason: str = ""


def run(
    table: Table,
    devices: Sequence[Device],
    dtypes: Sequence[str] = tuple(DTYPES),
    progress: Callable[[Device, str], Any] = lambda device, dtype: None,
) -> Iterator[Result]:
    """Check every op of a table; a failure is a result, not an exception."""
    for device in devices:
        for dtype in dtypes:
            progress(device, dtype)
            failures = _failures(table, device, dtype)
            for op in dict.fromkeys(case.op for case in table.cases):
                yield _result(table, op, device, dtype, failures)


def _result(
    table: Table, op: str, device: Device, dtype: str, failures: Mapping[str, str]
) -> Result:
    if dtype == "float64" and not device.supports_fp64:
        return Result(op, device, dtype, "unsupported", "the device has no float64")
    if not any(case.op == op and dtype in case.takes for case in table.cases):
        return Result(op, device, dtype, "unsupported", "the op does not take it")
    reason = failures.get(op, "")
    return Result(op, device, dtype, "fail" if reason else "pass", reason)


def _failures(table: Table, device: Device, dtype: str) -> dict[str, str]:
    """The first failure of each op; elementwise ops share kernels on OpenCL."""
    failures: dict[str, str] = {}
    if dtype == "float64" and not device.supports_fp64:
        return failures
    alone, fused = _split(table.cases, device, dtype)
    for group in fused:
        if _failure(check_group, group, device, dtype):
            for case in group:
                _note(failures, case, check_group, [case], device, dtype)
    for case in alone:
        _note(failures, case, check_case, case, device, dtype)
        if device.backend == "numpy" and dtype == "float64":
            _note(failures, case, check_gradient, case)
            _note(failures, case, check_derivative, case)
            _note(failures, case, check_refusal, case)
    return failures


def _split(
    cases: Sequence[Case], device: Device, dtype: str
) -> tuple[list[Case], list[list[Case]]]:
    """The cases that are run one by one, and those that share a kernel."""
    fused = groups(cases, dtype) if device.backend == "opencl" else []
    done = {id(case) for group in fused for case in group}
    return [case for case in cases if dtype in case.takes and id(case) not in done], fused


def _note(failures: dict[str, str], case: Case, check: Callable[..., None], *args: Any) -> None:
    reason = _failure(check, *args)
    if reason:
        failures.setdefault(case.op, reason)


def _failure(check: Callable[..., None], *args: Any) -> str:
    """What went wrong in a check, in one line; empty if nothing did."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(*args)
    except Exception as error:  # an op may raise anything; it becomes the cell's reason
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {' '.join(lines[:3])}"
    return ""
