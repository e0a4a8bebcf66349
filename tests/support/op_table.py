"""Writes docs/ops.md: what every op does on every runtime here in every dtype, from a run.

    python tests/support/op_table.py [new | distribution ...]

With distributions named, the sections of all others stay as they are; with `new` all rows do, and
those of the ops that the page lacks are added. It runs the cases of all
plugins on all devices, which takes minutes, so that `make docs` leaves it alone and `make op-table`
runs it. Exits with 1 if anything fails, such as that an op has neither a case nor a reason.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from netcl_plugin_kit.testing import Table, run_level, table_of, usable_devices
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.reference import torch_module

from netcl_core.hardware.device import Device
from netcl_core.plugins.registry import registry

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ops.md"
SHORT = {
    "bool": "b",
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
LISTED = "it has its row"
WITHOUT_CASES = "\nWithout a case of their own:\n\n| op | why |\n|---|---|"
INTRODUCTION = """\
# Ops on every runtime

Written by `make op-table` from a run of every plugin's cases
(`plugins/*/src/*/conformance.py`) on {date}, with {reference}.
A cell lists the dtypes in which an op passed on a runtime:
{dtypes}.
A dtype in bold failed, for the reason below the table. The op refuses other dtypes with an error
that names them, or the runtime does not have them.
An op passes if shape, dtype, values and gradients are right for sizes 0, 1, odd, prime and in five
dimensions, for broadcasting and fusion of elementwise ops, non-finite values and strided views.
It has to give the same bits twice, and in four threads at once. Gradients also agree with finite
differences ([conformance.md](conformance.md)).
"""


def tables(chosen: Sequence[str] = ()) -> list[Table]:
    """The tables of the plugins of this repository that have ops: all, or those chosen."""
    names = chosen or [path.parent.name for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))]
    return [table for table in map(table_of, names) if table.cases]


def page(results: Sequence[tuple[Table, list[Outcome]]], devices: Sequence[Device]) -> str:
    """The whole page."""
    torch = torch_module()
    reference = f"PyTorch {torch.__version__} in float64" if torch else "the NumPy path in float64"
    names = ", ".join(f"{short} ({name})" for name, short in SHORT.items())
    lines = [
        INTRODUCTION.format(date=date.today().isoformat(), reference=reference, dtypes=names),
        *_runtimes(devices),
    ]
    for table, outcomes in results:
        lines += _section(table, outcomes, devices)
    return "\n".join(lines).rstrip() + "\n"


def _runtimes(devices: Sequence[Device]) -> Iterator[str]:
    yield "| runtime | kind | driver |\n|---|---|---|"
    for device in devices:
        yield f"| {device.platform} | {device.kind} | {device.driver_version} |"


def _section(table: Table, outcomes: Sequence[Outcome], devices: Sequence[Device]) -> Iterator[str]:
    yield f"\n## {table.provider}\n"
    yield f"| op | gradient | {' | '.join(device.platform for device in devices)} |"
    yield "|---" * (2 + len(devices)) + "|"
    for op in sorted(filter(registry.op_rows, table.ops)):  # patterns are no ops
        own = [outcome for outcome in outcomes if outcome.op == op]
        gradient = any(case.differentiable for case in table.cases_of(op))
        cells = (_cell(kernel for kernel in own if kernel.device == d.id) for d in devices)
        yield f"| `{op}` | {'yes' if gradient else 'no'} | {' | '.join(cells)} |"
    yield from _reasons(outcomes, devices)
    without = {op: why for op, why in sorted(table.internal.items()) if why != LISTED}
    if without:
        yield WITHOUT_CASES
        yield from (f"| `{op}` | {why} |" for op, why in without.items())


def _cell(outcomes: Iterable[Outcome]) -> str:
    states: dict[str, set[str]] = {}
    for outcome in outcomes:
        states.setdefault(outcome.dtype, set()).add(outcome.state)
    words = [
        f"**{short}**" if "failed" in states[dtype] else short
        for dtype, short in SHORT.items()
        if states.get(dtype, set()) - {"skipped"}
    ]
    return " ".join(words) or "none"


def _reasons(outcomes: Sequence[Outcome], devices: Sequence[Device]) -> Iterator[str]:
    """What failed, and what was expected to."""
    platforms = {device.id: device.platform for device in devices}
    told = [outcome for outcome in outcomes if outcome.state in {"failed", "xfailed"}]
    if told:
        yield ""
    for one in told:
        where = f" on {platforms[one.device]}" if one.device else ""
        what = "expected to fail, " if one.state == "xfailed" else ""
        reason = " ".join(one.reason.split())
        yield f"- `{one.op}`{where} in {one.dtype or 'no dtype'}: {what}{one.check}: {reason}"


def _replaced(old: str, new: str) -> str:
    """The old page with the new page's sections in the places of its own, or at new ones."""
    head, *sections = re.split(r"(?m)^(?=## )", old)
    fresh = re.split(r"(?m)^(?=## )", new)[1:]
    section_of = {section.split("\n", 1)[0]: section.rstrip() for section in (*sections, *fresh)}
    return head + "\n\n".join(section_of[title] for title in sorted(section_of)) + "\n"


#: The rows of a section's two tables: of ops on runtimes, and of ops without a case.
ROWS = (r"(?m)(?:^\| `.*\|.*\|.*\n)+", r"(?m)(?:^\| `[^|]*\|[^|]*\|\n)+")


def added(old: str, new: str) -> str:
    """The old page with the new page's rows among those of its sections."""
    head, *sections = re.split(r"(?m)^(?=## )", old)
    fresh = {each.split("\n", 1)[0]: each for each in re.split(r"(?m)^(?=## )", new)[1:]}
    parts = [head]
    for section in sections:
        other = fresh.get(section.split("\n", 1)[0], "")
        for pattern in ROWS:
            rows, more = re.search(pattern, section), re.search(pattern, other)
            if more is None:
                continue
            if rows is None:
                section = f"{section.rstrip()}\n{WITHOUT_CASES}\n{more[0]}\n"
                continue
            lines = {*rows[0].splitlines(), *more[0].splitlines()}
            both = sorted(lines, key=lambda line: line.split("`")[1])
            section = section.replace(rows[0], "\n".join(both) + "\n")
        parts.append(section)
    return "".join(parts)


def lacking(table: Table) -> Table:
    """The cases of those ops of a table that the page does not have."""
    listed = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    ops = [op for op in table.ops if op not in listed and registry.op_rows(op)]
    known = {op: LISTED for op in (*table.ops, *table.missing(), *table.internal) if op not in ops}
    known |= {op: why for op, why in table.internal.items() if op not in listed}
    cases = [case for case in table.cases if case.op in ops]
    return replace(table, cases=cases, internal=known, problems={}, scenarios=(), policies=())


def main() -> None:
    """Run all cases and write the page."""
    devices = usable_devices()
    only_new = sys.argv[1:] == ["new"]
    results: list[tuple[Table, list[Outcome]]] = []
    start = time.monotonic()

    for whole in tables([] if only_new else sys.argv[1:]):
        table = lacking(whole) if only_new else whole
        if not table.cases:  # reasons alone
            results.append((table, []))
            continue

        def say(what: str, done: int, total: int, who: str = table.provider) -> None:
            if done % 500 == 0 or done == total:
                print(f"{time.monotonic() - start:6.1f} s  {who} {done}/{total}: {what}")

        results.append((table, run_level(table, devices, say).outcomes))
    text = page(results, devices)
    if only_new:
        text = added(PAGE.read_text(encoding="utf-8"), text)
    elif sys.argv[1:]:
        text = _replaced(PAGE.read_text(encoding="utf-8"), text)
    PAGE.write_text(text, encoding="utf-8")
    failed = [
        outcome for _, outcomes in results for outcome in outcomes if outcome.state == "failed"
    ]
    for one in failed:
        print(f"FAILED {one.check} of {one.op} on {one.device} in {one.dtype}: {one.reason}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
