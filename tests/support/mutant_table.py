"""Writes the table of docs/mutants.md: which seeded faults of our ops the checks catch, from a run.

    python tests/support/mutant_table.py

It breaks every op of every plugin in every way, which takes minutes, so that `make docs` leaves
it alone and `make mutants` runs it. Exits with 1 if a plugin's cases catch too few.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import op_table
from netcl_plugin_workbench.check.full import run_all
from netcl_plugin_workbench.faults.expression_faults import Fault, expression_faults
from netcl_plugin_workbench.faults.mutants import WANTED, MutantVerdict, by_kind, rows_of, summary

from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.testing import usable_devices
from netcl_core.testing.collection import Table
from netcl_core.testing.reference import torch_module

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
_PART = re.compile(r"(<!-- from a run -->\n).*?(<!-- end -->)", re.DOTALL)
_ROW = re.compile(r"^\| `(\w+)` \| (\d+) of (\d+) \|", re.MULTILINE)
_LONGEST = 150


class Figure(NamedTuple):
    """A row of the page."""

    caught: int
    total: int


def lines(found: Sequence[tuple[str, list[MutantVerdict]]]) -> Iterator[str]:
    """The generated part, from the verdicts of each plugin."""
    everything = [verdict for _, verdicts in found for verdict in verdicts]
    caught = sum(bool(each.caught_by) for each in everything)
    yield (
        f"{caught:,} of {len(everything):,} faults were caught "
        f"({100 * caught / len(everything):.1f} %) on {date.today().isoformat()} with PyTorch "
        f"{torch_module().__version__}, on {_place()} and in Oclgrind."
    )
    yield "\n| fault | caught |\n|---|---|"
    for kind, (good, total) in by_kind(everything).items():
        yield f"| {kind} | {good} of {total} |"
    for provider, verdicts in found:
        yield f"\n## {provider}\n\n| op | caught |\n|---|---|"
        for row in summary(verdicts):
            yield f"| `{row.op}` | {row.caught} of {row.total} |"
        missed = [each for each in verdicts if not each.caught_by]
        if missed:
            yield "\nMissed:\n"
        yield from (f"- `{each.op}`, {each.kind}: `{_short(each.text)}`" for each in missed)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _place() -> str:
    return next(each.platform for each in usable_devices() if each.backend == "opencl")


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
    found: list[tuple[str, list[MutantVerdict]]] = []
    warnings.simplefilter("ignore")
    for table in op_table.tables():

        def say(what: str, done: int, total: int, who: str = table.provider) -> None:
            print(f"{time.monotonic() - start:6.1f} s  {who}: {what} ({done} of {total})")

        found.append((table.provider, run_all(rows_of(table), table, usable_devices(), say)))
    text = "\n".join(lines(found))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_PART.sub(lambda part: f"{part[1]}{text}\n{part[2]}", page), encoding="utf-8")
    weak = [
        provider
        for provider, verdicts in found
        if sum(bool(each.caught_by) for each in verdicts) < WANTED * len(verdicts)
    ]
    for provider in weak:
        print(f"FAILED {provider}: fewer than {WANTED:.0%} of its seeded faults are caught")
    sys.exit(1 if weak else 0)


if __name__ == "__main__":
    main()
