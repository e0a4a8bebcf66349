"""Every kernel in a simulator that checks each access: no overrun, race, divergence, unset value.

The calls stand in `support/sanitizer_cases.py`, those of the ops that others are made of
in `support/sanitizer_parts.py`; a new op needs one there. What `sanitize` says of another
author's plugin stands in the kit's own tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sanitizer_cases as cases
from daily import SEED
from netcl_plugin_kit.faults import sanitizer
from sanitizer_parts import PARTS

from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.ops.operators import Operator
from netcl_core.plugins.registry import registry

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(__file__).with_name("support") / "sanitizer_program.py"


def simulate(what: str, log: Path) -> dict[str, Any]:
    """Run a program in the simulator, whose exit code says nothing; returns its report."""
    tool = sanitizer.command()
    if tool is None:
        pytest.skip(sanitizer.MISSING)
    command = [*tool, sys.executable, PROGRAM, log, what]
    done = subprocess.run(
        command,
        env=sanitizer.environment(log),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.startswith("{"), done.stderr[-5000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def first_party(kind: str) -> list[Any]:
    """The records of one kind that this repository's plugins bring."""
    registry.load()
    own = {path.name for path in (ROOT / "plugins").iterdir()}
    return [row.record for row in registry.rows(kind) if row.provider in own]


def template_files() -> set[str]:
    """The names under which the core's and the plugins' kernel templates are rendered.

    Macros that several of them share have no `.cl` in their names.
    """
    core = {f"core/kernels/{path.name}" for path in (ROOT / "templates" / "kernels").iterdir()}
    plugins = (ROOT / "plugins").glob("netcl-plugin-*/src/*/templates/*.cl.j2")
    prefix = "netcl_plugin_"
    return core | {f"{p.parents[1].name.removeprefix(prefix)}/{p.name}" for p in plugins}


def of_other_kinds(kind: str) -> set[str]:
    """The labels of the implementations that no device of this kind may take."""
    records = [*first_party("operator"), *first_party("part"), *first_party("primitive")]
    all_of_them = [each for record in records for each in getattr(record, "implementations", ())]
    all_of_them += first_party("implementation")
    needs = [(each.label, each.requires.device_kinds) for each in all_of_them]
    fitting = {label for label, kinds in needs if not kinds or kind in kinds}
    return {label for label, _ in needs} - fitting


def test_every_op_has_a_case() -> None:
    """A new op is added to STRUCTURED or PARTS, or to COMPOSITES with its reason."""
    operators = first_party("operator")
    composites = {each.name for each in operators if each.function is not None}
    parts = [each for each in first_party("part") if isinstance(each, Operator)]
    needed = {each.name for each in (*operators, *parts) if not each.view} - composites
    called = set(cases.STRUCTURED) | set(PARTS)
    known = called | set(cases.COMPOSITES)
    assert needed - called == set(), "operators without a case"
    assert composites - known == set(), "composites without a case or a reason"
    assert known - needed - composites - {"astype"} == set(), "cases of ops that are gone"
    assert all(each.arity for each in first_party("primitive"))


def test_nothing_is_found_in_a_sample(tmp_path: Path) -> None:
    """The first call of an op in six, forward and backward, with the kernels that GPUs get."""
    log = tmp_path / "oclgrind.log"
    report = simulate(f"sample {SEED % 6}/6", log)
    assert len(report["launched"]) > 10
    assert report["findings"] == {}
    assert not log.exists() or log.read_text(encoding="utf-8").strip() == ""
    assert [name for name, count in report["launched"].items() if not count] == []


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_nothing_is_found(kind: str, tmp_path: Path) -> None:
    """All ops with the kernels that a kind of device gets, forward and backward."""
    log = tmp_path / "oclgrind.log"
    report = simulate(kind, log)
    assert report["findings"] == {}
    assert not log.exists() or log.read_text(encoding="utf-8").strip() == ""
    assert [name for name, count in report["launched"].items() if not count] == []
    assert set(report["idle"]) - of_other_kinds(kind) <= set(cases.NOT_SIMULATED)
    records = [*first_party("primitive"), *first_party("part")]
    own = [each for record in records for each in getattr(record, "implementations", ())]
    records += [part for each in own for part in each.parts]
    primitives = {each.name for each in records if isinstance(each, AutogradPrimitive)}
    missing = template_files() - set(report["templates"]) - set(cases.NOT_RENDERED)
    missing -= cases.OF_THE_OTHER_KIND[kind]
    assert {name for name in missing if Path(name).name.split(".")[0] not in primitives} == set()


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is found in the faulty kernels of `support/templates`, by fault."""
    report = simulate("seeded", tmp_path_factory.mktemp("seeded") / "oclgrind.log")
    found: dict[str, str] = report["findings"]
    return found


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("overrun", "Invalid write of size 4"),
        ("race", "Write-write data race"),
        ("divergence", "Work-group divergence detected (barrier)"),
        ("uninitialized", "Controlflow depends on uninitialized value"),
    ],
)
def test_a_seeded_fault_is_found(seeded: dict[str, str], fault: str, text: str) -> None:
    assert text in seeded[fault]
    assert f"Kernel: {fault}" in " ".join(seeded[fault].split())


def test_what_a_kernel_wrote_into_a_fresh_buffer_is_set(seeded: dict[str, str]) -> None:
    """A device's probes free theirs, which the simulator would hand out again."""
    assert "faultless" not in seeded
