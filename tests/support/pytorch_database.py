"""Runs PyTorch's database of operators on the NumPy path, and prints a table.

    python tests/support/pytorch_database.py [-k NAME] [--samples 20] [--write]

`--write` writes docs/pytorch-operators.md.
"""

from __future__ import annotations

import argparse
import collections
import re
import warnings
from datetime import date
from pathlib import Path
from typing import Any

from netcl_plugin_kit.check.torch_samples import (
    DOCUMENTED,
    call_of,
    dense,
    outcome,
    samples_of,
    torch,
)

import netcl_core as nc

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pytorch-operators.md"


def survey(operators: Any, count: int) -> tuple[Any, dict[str, Any], list[str]]:
    """Counts of outcomes, by operator what was not right, and the operators that are absent."""
    counts: collections.Counter[str] = collections.Counter()
    faults: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    absent = []
    for op in operators:
        call = call_of(op)
        if call is None:
            absent.append(op.name)
            continue
        counts["offered"] += 1
        for sample, grad, dtype in samples_of(op, count):
            kind, text = outcome(op, call, sample, grad)
            if kind == "left out":
                continue
            counts["samples"] += 1
            counts[kind] += 1
            if kind != "agrees":
                faults[op.name][f"{kind} {dtype}: {text}"] += 1
    return counts, faults, absent


def page(chosen: Any, counts: Any, faults: dict[str, Any], absent: list[str], count: int) -> str:
    """The page of a whole run."""
    names = {op.name for op in chosen}
    offered = len(names) - len({*absent})
    refused: collections.Counter[str] = collections.Counter()
    rows = []
    for name, texts in sorted(faults.items()):
        for text, number in texts.items():
            said = next(
                (why for pattern, why in DOCUMENTED.items() if re.search(pattern, text)), ""
            )
            if text.startswith("refused"):
                refused[said] += number
            else:
                rows.append(f"| `{name}` | {number} | {text.removeprefix('differs ')[:90]} |")
    rows = rows or ["| none | 0 | |"]
    gone = ", ".join(f"`{name}`" for name in sorted({*absent}))
    return f"""# PyTorch's own samples of operators

Written by `tests/support/pytorch_database.py --write` on {date.today().isoformat()}, with PyTorch
{torch.__version__}. PyTorch tests its operators with a database of samples. Here these run by
netcl's functions of the same names on the NumPy path, at most {count} of each operator in float32,
int64 and bool: values, shapes and dtypes are compared, and in float32 the gradients.

| | |
|---|---|
| dense operators | {len(names)} |
| offered | {offered} |
| samples | {counts["samples"]:,} |
| agree | {counts["agrees"]:,} ({counts["agrees"] / counts["samples"]:.1%}) |
| are refused, for a reason below | {counts["refused"]:,} |
| differ | {counts["differs"]:,} |

## What is refused

| samples | why |
|---|---|
{chr(10).join(f"| {number} | {why} |" for why, number in refused.most_common())}

## What differs

| operator | samples | how |
|---|---|---|
{chr(10).join(rows)}

## What is absent

{gone}.
"""


def main() -> None:
    """Run the samples and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", dest="name", default="")
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    nc.use_device("numpy")
    chosen = [op for op in dense() if re.search(given.name, op.name)]
    counts, faults, absent = survey(chosen, given.samples)
    for name, texts in sorted(faults.items()):
        for text, number in texts.most_common():
            print(f"{name}: {number} x {text}")
    print(f"absent, {len(absent)}:", " ".join(sorted(absent)))
    print(len(chosen), dict(counts))
    if given.write and not given.name:
        rest = "".join(PAGE.read_text(encoding="utf-8").partition("\n## Layers")[1:])
        text = page(chosen, counts, faults, absent, given.samples) + rest
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
