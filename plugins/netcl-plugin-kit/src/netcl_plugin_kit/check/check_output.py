"""netcl plugins check: what was found as a table or JSON, progress on stderr, the exit code."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from netcl_market.tables import print_text
from rich.console import Console

from netcl_core.cli import print_json, print_table
from netcl_core.errors import TargetError, message
from netcl_plugin_kit.bars import progress_bar
from netcl_plugin_kit.check import checking as check
from netcl_plugin_kit.check import targets as places
from netcl_plugin_kit.check.apart import PATIENCE
from netcl_plugin_kit.check.causes import Told, causes
from netcl_plugin_kit.check.roofline import ENOUGH
from netcl_plugin_kit.check.turns import Turns, side_by_side
from netcl_plugin_kit.testing.records import CheckRecord, Level
from netcl_plugin_kit.writing import write_text

_COLUMNS: Final = ("op", "check", "device", "dtype", "reason", "remedy")
_MOST_OPS: Final = 8


def show_check(
    targets: Sequence[str],
    level: Level | None,
    devices: Sequence[str],
    only: Sequence[str],
    timeout: float | None,
    jobs: int,
    as_json: bool,
    out: str | None,
    against: str | None = None,
) -> int:
    """Check some plugins, or all that are installed; 1 if one of them has a failure."""
    level = level or check.level_for(only)
    check.insist(level, devices, only, against)
    words = [*dict.fromkeys(targets)] or places.installed()
    files = {} if out is None else _files(Path(out), words)
    for word in words if targets else ():
        places.insist(word)
    turns = Turns(jobs, len(words)) if jobs > 1 and len(words) > 1 else None
    ready: list[str] = []

    def told(what: str, done: int, total: int) -> None:
        progress(what, *((done, total) if turns is None else (len(ready), len(words))))

    def record_of(word: str) -> CheckRecord:
        record = check.check(
            word,
            level,
            devices,
            only,
            told,
            tell=Told(say).told,
            patience=PATIENCE if timeout is None else timeout,
            against=against,
            turns=turns,
        )
        if word in files:
            _write(files[word], record.as_json())
        ready.append(word)
        return record

    with _progress(quiet=as_json or level == "static") as (progress, say):
        records = side_by_side(record_of, words) if turns else [*map(record_of, words)]
    data: Any = [each.as_json() for each in records]
    data = data[0] if len(targets) == 1 else data
    if out is not None and not files:
        _write(Path(out), data)
    if as_json:
        print_json(data)
    else:
        _print_all(records)
    return 1 if any(verdict.state == "fail" for verdict in records) else 0


def _files(out: Path, words: Sequence[str]) -> dict[str, Path]:
    """The file of each record in a folder; none if `out` is a file for all of them.

    Raises TargetError unless new files can be written there; a check may take an hour.
    """
    files = {word: out / f"{Path(word).name}.json" for word in words} if out.is_dir() else {}
    for file in files.values() if files else [out]:
        _insist_on_place(file)
    if len({*files.values()}) < len(files):
        given = f"{len(files)} targets, of which some have one name"
        raise TargetError(message(f"--out {out}", given, "a file name for each record"))
    return files


def _write(file: Path, data: Any) -> None:
    text = json.dumps(data, indent=2, ensure_ascii=False)
    write_text("plugins check", file, f"{text}\n")


def _insist_on_place(out: Path) -> None:
    """Raise TargetError unless a new file can be written there; a check may take an hour."""
    who = f"--out {out}"
    if out.exists():
        raise TargetError(message(who, "the file is there already", "a new file"))
    if not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        given = f"{out.parent} is no folder that can be written to"
        raise TargetError(message(who, given, "a new file in a folder"))


@contextmanager
def _progress(*, quiet: bool) -> Iterator[tuple[Any, Callable[[str], None]]]:
    """What tells progress and what says a line: a bar and lines above it on a terminal's stderr.

    Elsewhere there is no bar, and lines go to stdout unless `quiet`: the table comes soon, or JSON.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda *_: None, (lambda line: None) if quiet else partial(print, flush=True)
        return
    with progress_bar(console) as told:
        yield told, lambda line: console.print(line, markup=False, highlight=False, soft_wrap=True)


# -- what is printed -------------------------------------------------------------------


def _print_all(records: Sequence[CheckRecord]) -> None:
    if not records:
        print("No plugin is installed; give a project folder or a wheel.")
    for number, record in enumerate(records):
        if number:
            print()
        _print(record)


def _print(record: CheckRecord) -> None:
    causes_of_failure = causes(
        [outcome for outcome in record.outcomes if outcome.state == "failed"]
    )
    failed = [cause.first for cause in causes_of_failure]
    if failed:
        rows = [
            (each.op, each.check, each.device, each.dtype, cause.reason, _first(each.remedy))
            for cause, each in zip(causes_of_failure, failed, strict=True)
        ]
        kept = [i for i, name in enumerate(_COLUMNS) if i != 0 or any(row[0] for row in rows)]
        kept = [i for i in kept if i not in {2, 3} or any(row[i] for row in rows)]
        header = [_COLUMNS[i] for i in kept]
        print_table(header, [[row[i] for i in kept] for row in rows], ("reason", "remedy"))
        print()
    for each in failed:
        for text in (each.reason, each.remedy):
            if "\n" in text:
                print_text(text)
                print()
    for reason, ops in _skipped(record).items():
        print_text(f"skipped: {reason}{f' ({ops})' if ops else ''}")
    for outcome in record.outcomes:
        if outcome.state == "passed" and outcome.reason:
            for line in outcome.reason.splitlines():
                print_text(f"{outcome.check}: {line}")
    for speed in record.roofline:
        if speed.elements < ENOUGH:
            continue  # it is among what was skipped
        where = f"{speed.op} in {speed.dtype} on {speed.device}, {speed.elements:,} elements"
        part = f"{speed.fraction:.2g} of a copy's bandwidth"
        print_text(f"roofline: {where} ({speed.shapes}): {part}")
    for note in record.notes:
        print_text(f"note: {note}")
    print_text(summary(record))


def _first(text: str) -> str:
    """The first line of a text; what follows stands below the table."""
    return text.partition("\n")[0]


def _skipped(record: CheckRecord) -> dict[str, str]:
    """Check and reason of what was skipped -> the ops that it concerns."""
    skipped: dict[str, list[str]] = defaultdict(list)
    for outcome in record.outcomes:
        if outcome.state == "skipped":
            where = " on ".join(filter(None, (outcome.dtype, outcome.device)))
            name = f"{outcome.check}{f' in {where}' if where else ''}: {outcome.reason}"
            skipped[name] += [outcome.op] if outcome.op and outcome.op not in skipped[name] else []
    return {name: _some(ops) for name, ops in skipped.items()}


def _some(ops: Sequence[str]) -> str:
    more = f" and {len(ops) - _MOST_OPS} more" if len(ops) > _MOST_OPS else ""
    return ", ".join(ops[:_MOST_OPS]) + more


def summary(record: CheckRecord) -> str:
    """The one line that says how a check ended."""
    counts = {
        state: sum(outcome.state == state for outcome in record.outcomes)
        for state in ("passed", "failed", "xfailed", "skipped")
    }
    parts = [f"{counts['passed']} checks passed", f"{counts['failed']} failed"]
    if counts["xfailed"]:
        parts.append(f"{counts['xfailed']} failed as expected")
    if counts["skipped"]:
        reasons = {outcome.reason for outcome in record.outcomes if outcome.state == "skipped"}
        shown = next(iter(reasons)) if len(reasons) == 1 else f"{len(reasons)} reasons"
        parts.append(f"{counts['skipped']} skipped ({shown})")
    return f"{record.plugin} {record.version}: {', '.join(parts)}, {record.seconds:.0f} s"
