"""The check of one plugin: from what a word means to the record of what was found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from netcl_market.child_processes import held

from netcl_core import __version__
from netcl_core.errors import ArgumentError, MissingExtraError, message
from netcl_core.inspect.data import Scratch
from netcl_plugin_kit.check import apart, full, targets
from netcl_plugin_kit.check.findings import STATIC
from netcl_plugin_kit.check.turns import Turns
from netcl_plugin_kit.faults.sanitizer import MISSING, command
from netcl_plugin_kit.testing import vocabulary
from netcl_plugin_kit.testing.records import LEVELS, SCHEMA, CheckRecord, Level, Outcome, from_json
from netcl_plugin_kit.testing.reference import has_torch

#: The names of the checks by the level that adds them.
CHECKS: Final[Mapping[Level, tuple[str, ...]]] = {
    "static": STATIC,
    "run": tuple(name for name in vocabulary.CHECKS if name not in STATIC),
    "full": full.NAMES,
}


def check(
    target: str,
    level: Level,
    devices: Sequence[str] = (),
    only: Sequence[str] = (),
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    *,
    tell: Callable[[Outcome], None] = lambda outcome: None,
    patience: float = apart.PATIENCE,
    against: str | None = None,
    turns: Turns | None = None,
) -> CheckRecord:
    """Check one plugin; whatever is wrong with it stands in the record.

    Args:
        target: An installed plugin or distribution, a project folder or a wheel.
        level: `static`, `run` or `full`; each includes those before it.
        devices: As NETCL_DEVICE, for the levels that run something; default: all usable.
        only: The names of the checks to make; default: all of the level.
        progress: Told what is done, how much of it is done, and how much there is.
        tell: Told each failure when it is found; the record has one per op, device and dtype.
        patience: For how many seconds the child process may be silent.
        against: `torch` runs PyTorch's own samples of operators of these names, too.
        turns: When it may run, if other checks run in this process, too. What is timed has a
            child process of its own then.

    Raises:
        TargetError: the target means nothing that can be checked.
        ArgumentError: `only` names no check of the level, or a device is given for `static`.
        MissingExtraError: something that the check needs is not installed.
    """
    insist(level, devices, only, against)
    with Scratch("check") as folder:
        with nullcontext() if turns is None else turns.beside():
            start = time.monotonic()
            subject = targets.locate(target, Path(folder), progress)
            job = apart.CheckJob(
                subject.name,
                subject.path,
                subject.packed,
                subject.project,
                level,
                tuple(devices),
                tuple(only),
                against,
                timed=turns is None,
            )
            if subject.failure is None:
                parts = apart.run(job, Path(folder), progress, tell, patience)
            else:
                parts = {"outcomes": [asdict(subject.failure)]}
            seconds = time.monotonic() - start
        left = parts.pop("left", [])
        if turns is not None and left:
            job = replace(job, only=tuple(left), against=None, timed=True)
            with turns.alone():
                start = time.monotonic()
                more = apart.run(job, Path(folder), progress, tell, patience)
                seconds += time.monotonic() - start
            for name in ("outcomes", "roofline", "parts"):
                parts[name] = [*parts.get(name, []), *more.get(name, [])]
    failed = any(each["state"] == "failed" for each in parts.get("outcomes", ()))
    return from_json(
        {
            "kind": "check",
            "schema": SCHEMA,
            "plugin": subject.name,
            "version": subject.version,
            "level": level,
            "state": "fail" if failed else "pass",
            "core": __version__,
            "python": platform.python_version(),
            "system": f"{platform.system().lower()}-{platform.machine()}",
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(seconds, 3),
            "wheel_sha256": subject.sha256,
            "held": held(),
            **parts,
        }
    )


def level_for(only: Sequence[str]) -> Level:
    """The lowest level that has all of these checks; `run` if none is named."""
    if not only:
        return "run"
    fits = (level for level in CHECKS if set(only) <= set(checks_of(level)))
    return next(fits, [*CHECKS][-1])


def checks_of(level: Level) -> list[str]:
    """The names of all checks of a level and of those before it."""
    below = LEVELS[: LEVELS.index(level) + 1]
    return [name for each in below for name in CHECKS[each]]


def insist(
    level: Level, devices: Sequence[str], only: Sequence[str], against: str | None = None
) -> None:
    """Raise ArgumentError unless these arguments of `check` make sense together."""
    if level not in CHECKS:
        given = f"the level {level!r}"
        raise ArgumentError(message("check", given, f"one of {', '.join(CHECKS)}"))
    if devices and level == "static":
        given = "a device for the level 'static', which runs nothing"
        raise ArgumentError(message("check", given, "the level run or full"))
    if level == "full" and (not only or "sanitizer" in only) and command() is None:
        given = "the level full, which runs every kernel in a simulator"
        others = " ".join(f"--only {name}" for name in full.NAMES if name != "sanitizer")
        remedy = f"Or make the others alone: {others}"
        raise MissingExtraError(message("netcl plugins check", given, MISSING, remedy))
    if against is not None and level == "static":
        given = f"--against {against} with the level 'static', which runs nothing"
        raise ArgumentError(message("check", given, "the level run or full"))
    if against is not None and not has_torch():
        given = f"--against {against}, and PyTorch is not installed"
        raise MissingExtraError(message("netcl plugins check", given, "pip install torch"))
    known = checks_of(level)
    for name in only:
        if name not in known:
            given = f"{name!r} is no check of the level {level!r}"
            raise ArgumentError(message("check", given, f"one of {', '.join(known)}"))
