"""What `netcl tune` says of a trial: a table of settings, and the record."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_core.cli import print_table, print_text
from netcl_core.inspect.choices import told
from netcl_plugin_tools.tune.records import Record
from netcl_plugin_tools.tune.trials import Contender, Trial

#: How many settings a table shows, the fastest, besides the default and what is out.
_SHOWN: Final = 8
_HEADER: Final = ("", "settings", "time", "to default")


def nothing(trial: Trial, record: Record | None) -> None:
    """Say nothing."""


def show(trial: Trial, record: Record | None) -> None:
    """Print what was measured, the fastest first, and what is recorded."""
    print_text(f"{trial.place}\n\n")
    ranked = sorted(trial.contenders, key=lambda each: each.seconds)
    measured = [each for each in ranked if not (each.fault or each.same)]
    shown = measured[:_SHOWN]
    shown += [each for each in measured[_SHOWN:] if each is trial.default]
    rows = [_row(trial, each) for each in (*shown, *(each for each in ranked if each.fault))]
    print_table(_HEADER, rows, ("settings", "time"))
    hidden, same = len(measured) - len(shown), sum(each.same for each in trial.contenders)
    notes = [f"{hidden} more are slower"] if hidden else []
    notes += [f"{same} launch the same as others"] if same else []
    notes += [f"{trial.left} were not tried: the budget is spent"] if trial.left else []
    notes.append(
        "nothing is recorded" if record is None else f"recorded: {told(trial.best.settings)}"
    )
    print_text(f"\n{'; '.join(notes)}\n\n")


def _row(trial: Trial, one: Contender) -> tuple[str, ...]:
    mark = "->" if one is trial.best else ""
    text = told(one.settings) + (" (default)" if one is trial.default else "")
    if one.fault:
        return mark, text, f"out: {one.fault}", ""
    if not math.isfinite(one.seconds):
        return mark, text, "not measured", ""
    return mark, text, _time(one.seconds), f"{1 / trial.gain_of(one):.2f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def data(trial: Trial, record: Record | None) -> dict[str, Any]:
    """A trial for JSON; times in seconds, null for what was not measured."""
    place = trial.place
    return {
        "implementation": place.implementation,
        "shape_class": place.shape_class,
        "device": place.device,
        "driver": place.driver,
        "settings": [
            {
                "settings": dict(each.settings),
                "seconds": each.seconds if math.isfinite(each.seconds) else None,
                "gain": round(trial.gain_of(each), 4),
                "fault": each.fault,
                "same": each.same,
            }
            for each in trial.contenders
        ],
        "left": trial.left,
        "recorded": None if record is None else dict(record.settings),
    }


def why_nothing(target: str, known: int) -> str:
    """Why there was nothing to measure."""
    what = target or "any op"
    if known:
        return f"All {known} records of {what} are there already; --again measures them again."
    return f"Nothing that {what} runs here has settings to choose from."
