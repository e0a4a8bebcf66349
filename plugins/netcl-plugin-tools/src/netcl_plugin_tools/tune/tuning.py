"""`netcl tune`: notes what a run asks for, measures it within the budget, and keeps records."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from netcl_plugin_kit.bars import progress_bar
from netcl_plugin_kit.shapes import attribute
from netcl_plugin_kit.testing.op_runs import run_op, tunable_ops, with_gradients
from netcl_plugin_kit.writing import write_text

from netcl_core import config, dtype_name, use_device
from netcl_core.cli import print_json
from netcl_core.errors import ArgumentError, message
from netcl_core.inspect.choices import ChosenSettings, Offered, Tuner, tuning_by
from netcl_plugin_tools.graph.target import called, take_gradients, told
from netcl_plugin_tools.tune import records as written
from netcl_plugin_tools.tune import report
from netcl_plugin_tools.tune.records import TuningRecord
from netcl_plugin_tools.tune.trials import TuningTrial

_WHO: Final = "tune"


def run(
    *,
    target: str,
    shapes: str | None,
    attrs: Sequence[str],
    dtype: str,
    device: str | None,
    budget: float,
    backward: bool,
    again: bool,
    forget: bool,
    export: Path | None,
    as_json: bool,
) -> int:
    """Do what the options say; 1 if there is nothing to do it with."""
    if forget or export is not None:
        return _change_records(target, export, forget)
    dtype = dtype_name(dtype, "--dtype")
    given = dict(attribute(_WHO, attr) for attr in attrs)
    if not config.get("cache"):
        print("netcl: the setting cache is off: no record will outlive this", file=sys.stderr)
    noter = Noter(again)
    with contextlib.nullcontext() if device is None else use_device(device):
        with tuning_by(noter):
            _run(target, shapes, dtype, given, backward)
        results = list(_measured(noter.trials, budget, report.nothing if as_json else report.show))
    if as_json:
        print_json([report.data(trial, record) for trial, record in results])
    elif not results:
        print(report.why_nothing(target, noter.known))
    if results and results[-1][0].interrupted:
        raise KeyboardInterrupt
    return 0 if results or noter.known else 1


def _run(
    target: str, shapes: str | None, dtype: str, attrs: dict[str, Any], backward: bool
) -> None:
    if ":" in target:
        _run_function(target, shapes, dtype, backward)
        return
    for op in [target] if target else tunable_ops():
        run_op(_WHO, op, shapes, dtype, attrs)


@final
class Noter(Tuner):
    """A tuner that notes one call for each record that there could be.

    Attributes:
        trials: The calls, with their inputs.
        known: How many places have a record of the user's already, and are left out.
    """

    def __init__(self, again: bool) -> None:
        self._again = again
        self._places: set[Any] = set()
        self.trials: list[TuningTrial] = []
        self.known = 0

    def wants(self, decision: ChosenSettings) -> bool:
        """Whether no record of the user's decided."""
        record = decision.record
        if not self._again and record is not None and record.source == written.HERE:
            self.known += decision.place not in self._places
            self._places.add(decision.place)
            return False
        return True

    def __call__(self, offered: Offered) -> bool:
        if offered.place not in self._places:
            self._places.add(offered.place)
            self.trials.append(TuningTrial(offered))
        return True


def _measured(
    trials: Sequence[TuningTrial],
    budget: float,
    tell: Callable[[TuningTrial, TuningRecord | None], None],
) -> Iterator[tuple[TuningTrial, TuningRecord | None]]:
    """Measure one after the other, each with its share of what is left, until Ctrl-C."""
    end = time.perf_counter() + (budget if math.isfinite(budget) else 1e9)
    for number, trial in enumerate(trials):
        share = max(0.0, end - time.perf_counter()) / (len(trials) - number)
        what = f"{trial.place.implementation}, {number + 1} of {len(trials)}"
        with progress_bar() as told:
            trial.measure(share, partial(told, what))
        record = trial.record()
        tell(trial, record)
        yield trial, record
        if trial.interrupted:
            return


def _change_records(op: str, export: Path | None, forget: bool) -> int:
    records, faults = written.all_own()
    exported = [
        record for record in records if op in {"", record.place.implementation.split(":")[1]}
    ]
    for fault in faults:
        print(f"ignored: {fault}", file=sys.stderr)
    if export is not None and exported:
        write_text("tune", export, written.text_of(exported))
        print(f"{export}: {len(exported)} records")
    if forget:
        written.forget([record.place for record in exported])
        print(f"{len(exported)} records are gone")
    return 0 if exported else 1


def _run_function(target: str, shapes: str | None, dtype: str, backward: bool) -> None:
    """Call a function of a file; raises ArgumentError where that raises."""
    with called(_WHO, target, shapes, dtype) as (function, name, given):
        if backward:
            take_gradients(given, shapes is not None)
        try:
            result = function(*given.args, **given.kwargs)
            if backward:
                with_gradients(lambda: result)
        except Exception as error:
            raise ArgumentError(message(_WHO, f"{name} raised {told(error)}")) from error
