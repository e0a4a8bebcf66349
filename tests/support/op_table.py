"""Writes docs/ops.md: what every op does on every runtime here in every dtype, from a run.

    python tests/support/op_table.py

It runs the tables of cases of all plugins on all devices, which takes minutes, so that
`make docs` leaves it alone and `make op-table` runs it. Exits with 1 if a cell fails or an
op has neither a case nor a reason.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from netcl_core.device import Device
from netcl_core.testing import Result, Table, run, usable_devices
from netcl_core.testing.reference import torch_module

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ops.md"
SHORT = {
    "bool": "b",
    "uint8": "u8",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
INTRODUCTION = """\
# Ops on every runtime

Written by `make op-table` from a run of every plugin's table of cases
(`plugins/*/tests/test_conformance.py`) on {date}, with {reference}.
A cell lists the dtypes in which an op passed on a runtime:
{dtypes}.
A dtype in bold failed, for the reason below the table. One that is not listed is refused by the op
with an error that names it, or the runtime does not have it.
Passing means: shape, dtype, values and gradients for sizes 0, 1, odd, prime and in five dimensions,
broadcasting and fusion of elementwise ops, non-finite values, strided host data, the same bits
twice. The gradients are those of finite differences, too.
"""


def tables() -> list[Table]:
    """The table of every plugin of this repository that has one."""
    return [_table(path) for path in sorted(ROOT.glob("plugins/*/tests/test_conformance.py"))]


def _table(path: Path) -> Table:
    name = f"conformance_of_{path.parent.parent.name.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # for the modules beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    found: Table = module.TestConformance.conformance_table
    return found


def page(results: Sequence[tuple[Table, list[Result]]], devices: Sequence[Device]) -> str:
    """The whole page."""
    torch = torch_module()
    reference = f"PyTorch {torch.__version__} in float64" if torch else "the NumPy path in float64"
    names = ", ".join(f"{short} ({name})" for name, short in SHORT.items())
    lines = [
        INTRODUCTION.format(date=date.today().isoformat(), reference=reference, dtypes=names),
        *_runtimes(devices),
    ]
    for table, found in results:
        lines += _section(table, found, devices)
    return "\n".join(lines)


def _runtimes(devices: Sequence[Device]) -> Iterator[str]:
    yield "| runtime | kind | driver |\n|---|---|---|"
    for device in devices:
        yield f"| {device.platform} | {device.kind} | {device.driver_version} |"


def _section(table: Table, results: Sequence[Result], devices: Sequence[Device]) -> Iterator[str]:
    yield f"\n## {table.provider}\n"
    yield f"| op | gradient | {' | '.join(device.platform for device in devices)} |"
    yield "|---" * (2 + len(devices)) + "|"
    for op in dict.fromkeys(case.op for case in sorted(table.cases, key=lambda case: case.op)):
        own = [result for result in results if result.op == op]
        gradient = any(case.op == op and case.differentiable for case in table.cases)
        cells = (_cell(result for result in own if result.device is d) for d in devices)
        yield f"| `{op}` | {'yes' if gradient else 'no'} | {' | '.join(cells)} |"
    yield from _failures(results)
    if table.internal:
        yield "\nWithout a case of their own:\n\n| op | why |\n|---|---|"
        yield from (f"| `{op}` | {why} |" for op, why in sorted(table.internal.items()))


def _cell(results: Iterable[Result]) -> str:
    shown = {"pass": "{}", "fail": "**{}**"}
    words = [shown[r.status].format(SHORT[r.dtype]) for r in results if r.status in shown]
    return " ".join(words) or "none"


def _failures(results: Sequence[Result]) -> Iterator[str]:
    failed = [result for result in results if result.status == "fail"]
    if failed:
        yield ""
    for one in failed:
        yield f"- `{one.op}` on {one.device.platform} in {one.dtype}: {one.reason}"


def main() -> None:
    """Run all cases and write the page."""
    devices = usable_devices()
    found: list[tuple[Table, list[Result]]] = []
    start = time.monotonic()

    for table in tables():

        def say(device: Device, dtype: str, who: str = table.provider) -> None:
            print(f"{time.monotonic() - start:6.1f} s  {who} on {device.platform} in {dtype}")

        found.append((table, list(run(table, devices, progress=say))))
    PAGE.write_text(page(found, devices), encoding="utf-8")
    missing = [op for table, _ in found for op in table.missing()]
    failed = [result for _, results in found for result in results if result.status == "fail"]
    for result in failed:
        print(f"FAILED {result.op} on {result.device.platform} in {result.dtype}: {result.reason}")
    if missing:
        print(f"neither a case nor a reason: {', '.join(missing)}")
    sys.exit(1 if failed or missing else 0)


if __name__ == "__main__":
    main()
