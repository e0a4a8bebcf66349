"""Mutants: a plugin's ops are broken in turn, and the checks of its cases must notice.

Nothing here judges: a mutant meets the same checks that the op itself has to pass, the
cheapest first, and is caught by the first that fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.autograd import verification
from netcl_core.autograd.operators import Operator
from netcl_core.autograd.primitives import AutogradPrimitive
from netcl_core.device import Device
from netcl_core.device_table import get_device
from netcl_core.dtypes import DTYPES
from netcl_core.hostdata import Array
from netcl_core.registry import OP_KINDS, Row, registry
from netcl_core.testing.cases import Case
from netcl_core.testing.checks import check_case, check_derivative, check_gradient, check_refusal
from netcl_core.testing.faults import Fault, expression_faults
from netcl_core.testing.fused import check_group
from netcl_core.testing.operator_faults import operator_faults
from netcl_core.testing.records import Mutants
from netcl_core.testing.reference import evaluate
from netcl_core.testing.results import Table
from netcl_core.testing.substitution import substituted

#: What share of the mutants a table of cases has to catch.
WANTED: Final = 0.95
Check: TypeAlias = Callable[[], Any]
Checks: TypeAlias = Callable[[], Iterator[tuple[str, Check]]]


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """A mutant's op, its kind of fault, what was changed, and the check that caught it, or ''."""

    op: str
    kind: str
    text: str
    caught_by: str


def rows_of(table: Table, only: Sequence[str] = ()) -> list[Row]:
    """The ops of a table's plugin, all or those named."""
    registry.load()
    rows = [row for kind in OP_KINDS for row in registry.rows(kind)]
    return [
        row
        for row in rows
        if row.provider == table.provider and (not only or row.record.name in only)
    ]


def run_mutants(row: Row, table: Table) -> Iterator[Verdict]:
    """Every fault of an op that changes what it computes, on the NumPy path."""
    cases = cases_of(row, table)
    if isinstance(row.record, AutogradPrimitive):
        for fault in expression_faults(row.record):
            yield verdict(row, fault, _checks(row, cases))
        return
    inputs = max((len(case.inputs) for case in cases), default=0)
    for fault in operator_faults(row.record, inputs) if cases else ():
        if not _is_the_same(row, fault, cases):
            yield verdict(row, fault, _checks(row, cases))


def verdict(row: Row, fault: Fault, checks: Checks) -> Verdict:
    """What a fault's checks say of it."""
    with substituted(row, fault.record):
        caught = next((name for name, check in checks() if fails(check)), "")
    return Verdict(fault.op, fault.kind, fault.text, caught)


def cases_of(row: Row, table: Table) -> list[Case]:
    """The cases of an op; those of other ops that run it, where it has none of its own."""
    own = [case for case in table.cases if case.op == row.record.name]
    return own or [case for case in table.cases if _runs(case, row)]


def _runs(case: Case, row: Row) -> bool:
    """Whether a case comes by an op: a stand-in notes that it is used."""
    used = _Used(row.record)
    with substituted(row, used.record):
        fails(lambda: evaluate(case, _sample(case), get_device("cpu")))
    return used.seen


class _Used:
    """A copy of a record that notes its use."""

    def __init__(self, record: Any) -> None:
        self.seen = False
        if isinstance(record, AutogradPrimitive):
            self.record: Any = replace(record, forward=self._noting(record.forward))
        elif isinstance(record, Operator):
            self.record = replace(record, infer=self._noting(record.infer))
        else:
            self.record = replace(record, function=self._noting(record.function))

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            self.seen = True
            return function(*args, **kwargs)

        return noted


def _checks(row: Row, cases: Sequence[Case]) -> Checks:
    """The checks of an op on the NumPy path, the cheapest first.

    They are made anew for each mutant, because a case remembers its op's record.
    """

    def made() -> Iterator[tuple[str, Check]]:
        fresh = [replace(case) for case in cases]
        own = [case for case in fresh if case.op == row.record.name]
        if isinstance(row.record, AutogradPrimitive) and not own:
            yield "derivative", partial(_check_derivative, row.record.name)
        for case in own:
            yield "derivative", partial(check_derivative, case)
        for dtype in sorted(DTYPES, key=lambda name: name != "float32"):
            for case in (case for case in fresh if dtype in case.takes):
                yield "values", partial(check_case, case, get_device("cpu"), dtype)
            for case in fresh if dtype == "float32" else ():
                yield "gradient", partial(check_gradient, case)
                yield "refusal", partial(check_refusal, case)

    return made


def checks_on(row: Row, table: Table, device: Device) -> Checks:
    """The checks of an elementwise op's own cases on an OpenCL device."""

    def made() -> Iterator[tuple[str, Check]]:
        own = [replace(case) for case in table.cases if case.op == row.record.name]
        for dtype in sorted(DTYPES, key=lambda name: name != "float32"):
            for case in (case for case in own if dtype in case.takes):
                if dtype == "float64" and not device.supports_fp64:
                    continue
                if case.excuse("fused"):
                    yield "values", partial(check_case, case, device, dtype)
                else:
                    yield "fused", partial(check_group, [case], device, dtype)

    return made


def _check_derivative(op: str) -> None:
    row = registry.find_op(op)
    findings = [] if row is None else verification.check_gradient(row.record)
    assert not findings, "\n".join(map(str, findings))


def fails(check: Check) -> bool:
    """Whether a check complains, in whatever way."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check()
    except Exception:  # a mutant may raise anything, and each kind of complaint counts
        return True
    return False


# -- structured ops: whether a fault changes anything -----------------------------------


def _is_the_same(row: Row, fault: Fault, cases: Sequence[Case]) -> bool:
    """Whether values and gradients of all cases are the same in float64, to a relative 1e-9."""
    right = [_values(case) for case in cases]
    with substituted(row, fault.record):
        return all(
            _alike(values, _values(replace(case)))
            for values, case in zip(right, cases, strict=True)
        )


def _values(case: Case) -> list[Array | None] | None:
    try:
        found = evaluate(case, _sample(case), get_device("cpu"))
    except Exception:  # a mutant that cannot run is another function
        return None
    return [found.output, *found.gradients]


def _alike(right: list[Array | None] | None, wrong: list[Array | None] | None) -> bool:
    if right is None or wrong is None:
        return right is wrong
    return len(right) == len(wrong) and all(map(_close, right, wrong))


def _close(one: Array | None, two: Array | None) -> bool:
    if one is None or two is None or one.shape != two.shape:
        return one is two
    return bool(np.allclose(one, two, rtol=1e-9, atol=0, equal_nan=True))


def _sample(case: Case) -> list[Array]:
    dtype = "float64" if "float64" in case.takes else case.takes[-1]
    samples = [case.sample(shapes, dtype) for shapes in case.variants]
    return max(samples, key=lambda arrays: sum(x.size for x in arrays))


# -- what came out ---------------------------------------------------------------------


def summary(verdicts: Sequence[Verdict]) -> list[Mutants]:
    """The mutants of each op: how many, how many caught, and the texts of the others."""
    found: dict[str, list[Verdict]] = {}
    for each in verdicts:
        found.setdefault(each.op, []).append(each)
    return [
        Mutants(
            op,
            len(own),
            sum(bool(each.caught_by) for each in own),
            tuple(f"{each.kind}: {each.text}" for each in own if not each.caught_by),
        )
        for op, own in found.items()
    ]


def by_kind(verdicts: Sequence[Verdict]) -> Mapping[str, tuple[int, int]]:
    """Per kind of fault: how many were caught, and how many there were."""
    kinds = dict.fromkeys(each.kind for each in verdicts)
    return {
        kind: (
            sum(each.kind == kind and bool(each.caught_by) for each in verdicts),
            sum(each.kind == kind for each in verdicts),
        )
        for kind in kinds
    }
