"""Mutants: a plugin's ops are broken in turn, and the checks of its cases must notice.

Nothing here judges: a mutant meets the steps that `check` makes for the op, the cheapest
first, and is caught by the first that fails. A step that fails without the fault, too,
catches nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, get_device
from netcl_core.autograd import AutogradPrimitive
from netcl_core.inspect.data import Array
from netcl_core.plugins.protocol import Row, registry
from netcl_plugin_kit.faults.expression_faults import Fault, expression_faults
from netcl_plugin_kit.faults.operator_faults import operator_faults
from netcl_plugin_kit.faults.substitution import substituted
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.records import Mutants
from netcl_plugin_kit.testing.reference import evaluate
from netcl_plugin_kit.testing.running import perform
from netcl_plugin_kit.testing.steps import CheckStep, steps_of

#: What share of the mutants a table of cases has to catch.
WANTED: Final = 0.95
#: Steps that say nothing of what an op computes.
_OF_THE_TABLE: Final = frozenset({"cases", "reference"})


@final
@dataclass(frozen=True, slots=True)
class MutantVerdict:
    """A mutant's op, its kind of fault, what was changed, and the check that caught it, or ''."""

    op: str
    kind: str
    text: str
    caught_by: str


def rows_of(table: Table, only: Sequence[str] = ()) -> list[Row]:
    """The ops of a table's plugin and their parts, all or those named."""
    registry.load()
    rows = registry.rows_of(table.provider, parts=True)
    return [row for row in rows if not only or row.record.name in only]


def run_mutants(
    row: Row,
    table: Table,
    *,
    thorough: bool = True,
    alive: Callable[[], object] = lambda: None,
) -> Iterator[MutantVerdict]:
    """Every fault of an op that changes what it computes, on the NumPy path.

    `alive` is called before each step that a fault meets.
    """
    trial = MutantTrial(row, table, get_device("numpy"), thorough=thorough, alive=alive)
    if isinstance(row.record, AutogradPrimitive):
        for fault in _expression_faults(row.record):
            yield trial.verdict(fault)
        return
    inputs = max((len(case.inputs) for case in trial.cases), default=0)
    for fault in operator_faults(row.record, inputs) if trial.cases else ():
        if not _is_the_same(row, fault, trial.cases):
            yield trial.verdict(fault)


def _expression_faults(record: AutogradPrimitive) -> list[Fault]:
    """The faults of an op's expressions; none where they cannot be had, as the checks say."""
    try:
        return list(expression_faults(record))
    except Exception:  # a plugin's callable may raise anything
        return []


@final
class MutantTrial:
    """An op with the steps that `check` makes for it on a device, to be made with a mutant.

    `cases` are those of the op; those of other ops that run it, where it has none of its own.
    Unless it is `thorough`, the steps are those of pytest's suite. `alive` is called before each.
    """

    def __init__(
        self,
        row: Row,
        table: Table,
        device: Device,
        *,
        thorough: bool = True,
        alive: Callable[[], object] = lambda: None,
    ) -> None:
        self.row = row
        self.device = device
        self.thorough = thorough
        self.alive = alive
        own = table.cases_of(row.record.name)
        self.cases = own or [case for case in table.cases if _runs(case, row)]
        self._sound: dict[str, bool] = {}

    def verdict(self, fault: Fault) -> MutantVerdict:
        """What the steps say of a fault."""
        caught = self.caught_by(lambda: substituted(self.row, fault.record))
        return MutantVerdict(fault.op, fault.kind, fault.text, caught)

    def caught_by(self, fault: Callable[[], AbstractContextManager[Any]]) -> str:
        """The check that complains of the op with a fault and not without it; empty: none."""
        while True:
            with fault():
                complaint = next(filter(self._fails, self._steps()), None)
            if complaint is None:
                return ""
            if self._passes_unspoiled(str(complaint)):
                return complaint.check

    def _fails(self, step: CheckStep) -> bool:
        self.alive()
        return _fails(step)

    def _steps(self) -> list[CheckStep]:
        """The steps, made anew each time: a case and a step remember their op's record."""
        table = Table(self.row.provider, [replace(case) for case in self.cases])
        op = self.row.record.name
        steps = [
            step
            for step in steps_of(table, [self.device], thorough=self.thorough)
            if step.check not in _OF_THE_TABLE
            and not step.skip
            and self._sound.get(str(step), True)
            and (
                step.op == op if step.check == "derivative" else step.device in {self.device, None}
            )
        ]
        return sorted(steps, key=_cost)

    def _passes_unspoiled(self, name: str) -> bool:
        """Whether a step passes without the fault."""
        if name not in self._sound:
            with substituted(self.row, replace(self.row.record)):
                (step, *_) = (step for step in self._steps() if str(step) == name)
                self._sound[name] = not _fails(step)
        return self._sound[name]


def _cost(step: CheckStep) -> tuple[bool, bool]:
    """The static check first, then float32, in which every check is made."""
    return step.check != "derivative", step.dtype != "float32"


def _fails(step: CheckStep) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(outcome.state == "failed" for outcome in perform(step))


def _runs(case: Case, row: Row) -> bool:
    """Whether a case comes by an op: a stand-in notes that it is used."""
    used = _Used(row.record)
    with substituted(row, used.record):
        _values(replace(case))
    return used.seen


@final
class _Used:
    """A copy of a record that notes its use."""

    def __init__(self, record: Any) -> None:
        self.seen = False
        if isinstance(record, AutogradPrimitive):
            # Its expressions are parsed before it is used: what it aligns comes by at each call.
            align = record.align or (lambda *operands: operands)
            self.record: Any = replace(record, align=partial(self._note, align))
        elif record.function is None:
            self.record = replace(record, infer=partial(self._note, record.infer))
        else:
            self.record = replace(record, function=partial(self._note, record.function))

    def _note(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.seen = True
        return function(*args, **kwargs)


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
        values = evaluate(case, _sample(case), get_device("numpy"))
    except Exception:  # a mutant that cannot run is another function
        return None
    return [*values.outputs, *values.gradients]


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


def summary(verdicts: Sequence[MutantVerdict]) -> list[Mutants]:
    """The mutants of each op: how many, how many caught, and the texts of the others."""
    by_op: dict[str, list[MutantVerdict]] = {}
    for verdict in verdicts:
        by_op.setdefault(verdict.op, []).append(verdict)
    return [
        Mutants(
            op,
            len(own),
            sum(bool(each.caught_by) for each in own),
            tuple(f"{each.kind}: {each.text}" for each in own if not each.caught_by),
        )
        for op, own in by_op.items()
    ]


def by_kind(verdicts: Sequence[MutantVerdict]) -> Mapping[str, tuple[int, int]]:
    """Per kind of fault: how many were caught, and how many there were."""
    kinds = dict.fromkeys(verdict.kind for verdict in verdicts)
    return {
        kind: (
            sum(verdict.kind == kind and bool(verdict.caught_by) for verdict in verdicts),
            sum(verdict.kind == kind for verdict in verdicts),
        )
        for kind in kinds
    }
