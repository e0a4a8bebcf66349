"""What `netcl tune` says of a trial: a table of settings, and the record."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_market.tables import print_text

from netcl_core.cli import print_table
from netcl_core.inspect.choices import told
from netcl_plugin_tools.tune.records import TuningRecord
from netcl_plugin_tools.tune.trials import TriedSettings, TuningTrial

#: How many settings a table shows, the fastest, besides the default and what is out.
_SHOWN: Final = 8
_HEADER: Final = ("", "settings", "time", "to default")


def nothing(trial: TuningTrial, record: TuningRecord | None) -> None:
    """Say nothing."""


def show(trial: TuningTrial, record: TuningRecord | None) -> None:
    """Print what was measured, the fastest first, and what is recorded."""
    print_text(f"{trial.place}\n\n")
    ranked = sorted(trial.contenders, key=lambda each: each.seconds)
    measured = [contender for contender in ranked if not (contender.fault or contender.same)]
    shown = measured[:_SHOWN]
    shown += [contender for contender in measured[_SHOWN:] if contender is trial.default]
    rows = [
        _row(trial, contender)
        for contender in (*shown, *(contender for contender in ranked if contender.fault))
    ]
    print_table(_HEADER, rows, ("settings", "time"))
    hidden, same = len(measured) - len(shown), sum(contender.same for contender in trial.contenders)
    notes = [f"{hidden} more are slower"] if hidden else []
    notes += [f"{same} launch the same as others"] if same else []
    notes += [f"{trial.left} were not tried: the budget is spent"] if trial.left else []
    notes.append(
        "nothing is recorded" if record is None else f"recorded: {told(trial.best.settings)}"
    )
    print_text(f"\n{'; '.join(notes)}\n\n")


def _row(trial: TuningTrial, one: TriedSettings) -> tuple[str, ...]:
    mark = "->" if one is trial.best else ""
    text = told(one.settings) + (" (default)" if one is trial.default else "")
    if one.fault:
        return mark, text, f"out: {one.fault}", ""
    if not math.isfinite(one.seconds):
        return mark, text, "not measured", ""
    return mark, text, _time(one.seconds), f"{1 / trial.gain_of(one):.2f}"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def data(trial: TuningTrial, record: TuningRecord | None) -> dict[str, Any]:
    """A trial for JSON; times in seconds, null for what was not measured."""
    place = trial.place
    return {
        "implementation": place.implementation,
        "shape_class": place.shape_class,
        "device": place.device,
        "driver": place.driver,
        "settings": [
            {
                "settings": dict(contender.settings),
                "seconds": contender.seconds if math.isfinite(contender.seconds) else None,
                "gain": round(trial.gain_of(contender), 4),
                "fault": contender.fault,
                "same": contender.same,
            }
            for contender in trial.contenders
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
