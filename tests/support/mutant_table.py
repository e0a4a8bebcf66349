"""Writes the table of docs/mutants.md: which seeded faults of our ops the checks catch, from a run.

    python tests/support/mutant_table.py [new]

It breaks every op of every plugin in every way, which takes minutes, so that `make docs` leaves
it alone and `make mutants` runs it. With `new` it breaks those alone that the page does not have,
and adds their faults to it. Exits with 1 if a plugin's cases catch too few, or the tests of every
day too few of those.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import op_table
from netcl_plugin_kit.check.full import run_all
from netcl_plugin_kit.faults.expression_faults import Fault, expression_faults
from netcl_plugin_kit.faults.mutants import WANTED, MutantVerdict, by_kind, rows_of, summary
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.reference import torch_module

from netcl_core.codegen.primitives import AutogradPrimitive

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
_PART = re.compile(r"(<!-- from a run -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| (\d+) of (\d+) \|", re.MULTILINE)
_LONGEST = 150
#: The part of what all checks catch that the tests of every day have to catch.
DAILY = 0.97


class Figure(NamedTuple):
    """A row of the page."""

    caught: int
    total: int


def lines(
    results: Sequence[tuple[str, list[MutantVerdict]]], by_day: Sequence[MutantVerdict] = ()
) -> Iterator[str]:
    """The generated part, from the verdicts of each plugin, and those of the tests of every day."""
    everything = [verdict for _, verdicts in results for verdict in verdicts]
    caught = sum(bool(verdict.caught_by) for verdict in everything)
    yield (
        f"{caught:,} of {len(everything):,} faults were caught "
        f"({100 * caught / len(everything):.1f} %) on {date.today().isoformat()} with PyTorch "
        f"{torch_module().__version__}, on {_place()} and in Oclgrind."
    )
    if by_day:
        share = daily_share(everything, by_day)
        yield f"\nOf those that all checks catch, the tests of every day catch {100 * share:.1f} %."
    yield "\n| fault | caught |\n|---|---|"
    for kind, (good, total) in by_kind(everything).items():
        yield f"| {kind} | {good} of {total} |"
    for provider, verdicts in results:
        yield f"\n## {provider}\n\n| op | caught |\n|---|---|"
        for row in summary(verdicts):
            yield f"| `{row.op}` | {row.caught} of {row.total} |"
        missed = [verdict for verdict in verdicts if not verdict.caught_by]
        if missed:
            yield "\nMissed:\n"
        yield from (f"- `{mutant.op}`, {mutant.kind}: `{_short(mutant.text)}`" for mutant in missed)


def daily_share(everything: Iterable[MutantVerdict], by_day: Iterable[MutantVerdict]) -> float:
    """The part of the faults that all checks catch which those of every day catch, too."""
    caught, daily = (
        {(verdict.op, verdict.kind, verdict.text) for verdict in verdicts if verdict.caught_by}
        for verdicts in (everything, by_day)
    )
    return len(caught & daily) / max(1, len(caught))


def added(page: str, results: Sequence[tuple[str, list[MutantVerdict]]]) -> str:
    """The generated part of a page with the verdicts of further ops."""
    match = _PART.search(page)
    assert match is not None  # it has been written before
    old = match[0].removeprefix(match[1]).removesuffix(match[2]).rstrip("\n")
    fresh = [(provider, verdicts) for provider, verdicts in results if verdicts]
    kinds = by_kind([verdict for _, verdicts in fresh for verdict in verdicts])
    head, *sections = re.split(r"^(?=## )", old, flags=re.MULTILINE)
    for kind, (good, total) in kinds.items():
        row = re.compile(rf"^\| {re.escape(kind)} \| ([\d,]+) of ([\d,]+) \|$", re.MULTILINE)
        before = row.search(head)
        if before is None:
            head = f"{head.rstrip()}\n| {kind} | {good} of {total} |\n\n"
        else:
            text = f"| {kind} | {int(before[1]) + good} of {int(before[2]) + total} |"
            head = head.replace(before[0], text)
    by_provider = {re.match(r"## (\S+)", each)[1]: each for each in sections}  # type: ignore[index]
    for provider, verdicts in fresh:
        rows = "\n".join(
            f"| `{row.op}` | {row.caught} of {row.total} |" for row in summary(verdicts)
        )
        missed = [f"- `{v.op}`, {v.kind}: `{_short(v.text)}`" for v in verdicts if not v.caught_by]
        section = by_provider.get(
            provider, f"## {provider}\n\n| op | caught |\n|---|---|\n"
        ).rstrip()
        table, *rest = section.split("\n\nMissed:\n\n")
        told = "\n".join([*rest, *missed])
        by_provider[provider] = f"{table}\n{rows}" + (f"\n\nMissed:\n\n{told}" if told else "")
    text = "\n\n".join(
        [head.rstrip(), *(by_provider[name].rstrip() for name in sorted(by_provider))]
    )
    caught, total = (sum(column) for column in zip(*map(_counted, _ROW.findall(text)), strict=True))
    return re.sub(
        r"^[\d,]+ of [\d,]+ faults were caught \([\d.]+ %\) on \S+",
        f"{caught:,} of {total:,} faults were caught ({100 * caught / total:.1f} %) on "
        f"{date.today().isoformat()}",
        text,
    )


def _counted(row: tuple[str, str, str]) -> tuple[int, int]:
    return int(row[1]), int(row[2])


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _place() -> str:
    return next(device.platform for device in usable_devices() if device.backend == "opencl")


def published() -> dict[str, Figure]:
    """What the page says of each op."""
    text = PAGE.read_text(encoding="utf-8")
    return {op: Figure(int(caught), int(total)) for op, caught, total in _ROW.findall(text)}


def static_faults(table: Table) -> dict[str, list[Fault]]:
    """The faults of the expressions of a table's elementwise ops."""
    return {
        row.record.name: list(expression_faults(row.record))
        for row in rows_of(table)
        if isinstance(row.record, AutogradPrimitive)
    }


def main() -> None:
    """Run all mutants and write the page."""
    if torch_module() is None:
        sys.exit("mutant_table: PyTorch is not installed, and the figure is one with it")
    start = time.monotonic()
    results: list[tuple[str, list[MutantVerdict]]] = []
    by_day: list[MutantVerdict] = []
    known = published() if sys.argv[1:] == ["new"] else {}
    warnings.simplefilter("ignore")
    for table in op_table.tables():

        def say(what: str, done: int, total: int, who: str = table.provider) -> None:
            print(f"{time.monotonic() - start:6.1f} s  {who}: {what} ({done} of {total})")

        rows = [row for row in rows_of(table) if row.record.name not in known]
        devices = usable_devices()
        results.append((table.provider, run_all(rows, table, devices, say) if rows else []))
        by_day += run_all(rows, table, devices, say, thorough=False) if rows else []
    page = PAGE.read_text(encoding="utf-8")
    text = added(page, results) if known else "\n".join(lines(results, by_day))
    PAGE.write_text(_PART.sub(lambda part: f"{part[1]}{text}\n{part[2]}", page), encoding="utf-8")
    weak = [
        provider
        for provider, verdicts in results
        if sum(bool(verdict.caught_by) for verdict in verdicts) < WANTED * len(verdicts)
    ]
    for provider in weak:
        print(f"FAILED {provider}: fewer than {WANTED:.0%} of its seeded faults are caught")
    share = daily_share((verdict for _, verdicts in results for verdict in verdicts), by_day)
    print(f"the tests of every day catch {share:.1%} of what all checks catch")
    sys.exit(1 if weak or share < DAILY else 0)


if __name__ == "__main__":
    main()
