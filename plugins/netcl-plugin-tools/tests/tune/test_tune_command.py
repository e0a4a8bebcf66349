"""`netcl tune`: what it measures, prints and records, and how it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netcl_plugin_tunable
import numpy as np
import pytest
from click.testing import CliRunner, Result
from netcl_plugin_kit.testing import Case, normal
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tools.tune.records import write
from netcl_plugin_tunable import DEFAULT, operator

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.cli import main

OPENCL = [each for each in nc.devices() if each.backend == "opencl" and not each.simulator]
pytestmark = pytest.mark.skipif(not OPENCL, reason="no OpenCL device")

FILE = """
import numpy as np
import netcl_core.autograd as ag

print("the file's own words")
compiled = ag.jit_compile(lambda x: ag.exp(ag.scaled(x, 0.5)))


def model(x):
    return ag.scaled(compiled(x), 3.0)


def other(x):
    return ag.exp(x)


def broken(x):
    raise ValueError("too bad")


example_inputs = lambda: [np.ones(5000, np.float32)]
"""


CASE = Case("scaled", [normal()], reference=lambda x: 2 * x, shapes=[[(3000,)], [(0,)]])


@pytest.fixture(autouse=True)
def tunable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugin, and a folder of records for each test."""
    programs = Path(os.environ["NETCL_CACHE_DIR"]) / "programs"
    (tmp_path / "programs").symlink_to(programs.resolve())
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    nc.plugins.register(netcl_plugin_tunable.Plugin(cases=[CASE]), "tunable")
    with nc.use_device(OPENCL[0]):
        yield
    nc.plugins.unregister("tunable")
    tuning_records._unwritten.clear()


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "model.py").write_text(FILE)
    return str(tmp_path / "model.py")


def tune(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, ["tune", *arguments, "--budget", "10"])


def recorded() -> dict[str, Any]:
    """The settings of each class of shapes."""
    records, faults = tuning_records.all_own()
    assert not faults
    return {each.place.shape_class: dict(each.settings) for each in records}


def test_an_op_on_shapes() -> None:
    result = tune("scaled", "--shapes", "100x100")
    assert result.exit_code == 0, result.output
    title, table, end, *_ = result.stdout.split("\n\n")
    assert title.startswith("tunable:scaled:by spans for float32[128x128] on ")
    header, *rows = table.splitlines()
    assert header.split() == ["settings", "time", "to", "default"]
    assert rows[0].startswith("->") and "waste=0" in rows[0]
    assert len(rows) == 4
    (default,) = [row for row in rows if "span=16, waste=400 (default)" in row]
    assert default.endswith("1.00") and " ms " in default
    assert float(rows[0].split()[-1]) < 0.5
    (found,) = recorded().values()
    assert found["waste"] == 0 and end == f"recorded: span={found['span']}, waste=0"
    said = str(nc.plugins.why("scaled", (100, 100)))
    assert "waste=0 (measured here on " in said


def test_the_cases_of_an_op_and_what_is_known_is_left_out() -> None:
    assert tune("scaled").exit_code == 0
    assert recorded().keys() == {"float32[4096]"}
    before = tuning_records.all_own()[0][0]
    again = tune("scaled")
    assert again.exit_code == 0
    assert again.stdout == "All 1 records of scaled are there already; --again measures them " + (
        "again.\n"
    )
    write(before.place, DEFAULT, 1.0)
    assert tune("scaled", "--again").exit_code == 0
    assert recorded()["float32[4096]"]["waste"] == 0


@pytest.mark.parametrize("backward", [False, True])
def test_a_function_of_a_file(file: str, backward: bool) -> None:
    result = tune(f"{file}:model", *(["--backward"] if backward else []))
    assert result.exit_code == 0, result.output
    assert "the file's own words" not in result.stdout
    assert recorded().keys() == {"float32[8192]"}
    assert tune(f"{file}:model", "--shapes", "10").exit_code == 0
    assert recorded().keys() == {"float32[8192]", "float32[16]"}


def test_nothing_to_tune(file: str) -> None:
    result = tune(f"{file}:other")
    assert result.exit_code == 1
    assert result.stdout == f"Nothing that {file}:other runs here has settings to choose from.\n"
    assert tune("exp", "--shapes", "10").exit_code == 1


def test_all_ops_with_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from netcl_plugin_tools.tune import tuning

    assert "scaled" in tuning.tunable_ops() and "exp" not in tuning.tunable_ops()
    monkeypatch.setattr(tuning, "tunable_ops", lambda: ["scaled"])
    assert tune().exit_code == 0 and len(recorded()) == 1


def test_json() -> None:
    (found,) = json.loads(tune("scaled", "--shapes", "4000", "--json").stdout)
    assert found["implementation"] == "tunable:scaled:by spans"
    assert found["shape_class"] == "float32[4096]" and found["left"] == 0
    assert found["settings"][0]["settings"] == DEFAULT and len(found["settings"]) == 4
    assert all(each["seconds"] > 0 and not each["fault"] for each in found["settings"])
    assert found["recorded"]["waste"] == 0


def test_what_is_wrong_is_shown_and_not_recorded() -> None:
    nc.plugins.unregister("tunable")
    choices = {"span": (16,), "waste": (0,), "off": (0, 1)}
    space = ag.Space(choices, lambda request: {"span": 16, "waste": 0, "off": 0})
    nc.plugins.register(netcl_plugin_tunable.Plugin(operator(space)), "tunable")
    result = tune("scaled", "--shapes", "4000")
    assert result.exit_code == 0
    assert "out: result 0 differs from the default's" in " ".join(result.stdout.split())
    assert "nothing is recorded" in result.stdout and recorded() == {}


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    nc.plugins.unregister("tunable")
    count = iter(range(99))

    def plan(request: ag.Request) -> Any:
        if next(count) == 4:
            raise KeyboardInterrupt
        return netcl_plugin_tunable.plan(request)

    nc.plugins.register(netcl_plugin_tunable.Plugin(operator(plan=plan)), "tunable")
    result = tune("scaled", "--shapes", "4000")
    assert result.exit_code == 130 and "netcl: interrupted" in result.stderr
    assert "recorded: " in result.stdout and len(recorded()) == 1


def test_records_are_exported_and_forgotten(tmp_path: Path) -> None:
    out = tmp_path / "tuning" / "some.json"
    assert tune("scaled", "--export", str(out)).exit_code == 1
    assert tune("scaled", "--shapes", "4000").exit_code == 0
    out.parent.mkdir(exist_ok=True)
    out = tmp_path / "shipped.json"
    result = tune("scaled", "--export", str(out))
    assert (result.exit_code, result.stdout) == (0, f"{out}: 1 records\n")
    ((record,), fault) = tuning_records.read(out, "shipped")
    assert not fault and record.place.shape_class == "float32[4096]"
    assert tune("exp", "--forget").exit_code == 1 and len(recorded()) == 1
    assert tune("--forget").stdout == "1 records are gone\n"
    assert recorded() == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no_such_op"], "no installed plugin provides this op"),
        (["scaled", "--shapes", "4y"], "the shape '4y'"),
        (["scaled", "--dtype", "float7"], "float7"),
        (["scaled", "--dtype", "float16"], "scaled"),
        (["scaled", "--shapes", "4", "--attr", "factor"], "--attr 'factor'"),
        (["scaled", "--shapes", "4,4,4"], "scaled"),
        (["no_file.py:f"], "tune: there is no file 'no_file.py'"),
        (["FILE:gone"], "has no 'gone'"),
        (["FILE:broken"], "broken raised ValueError: too bad"),
    ],
    ids=str,
)
def test_usage(arguments: list[str], text: str, file: str) -> None:
    result = tune(*(each.replace("FILE", file) for each in arguments))
    assert result.exit_code in {2, 3}, result.output
    assert text in result.stderr


def test_without_a_cache_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CACHE", "0")
    result = tune("scaled", "--shapes", "4000")
    assert result.exit_code == 0
    assert "no record will outlive this" in result.stderr
    assert ag.scaled(np.ones(4000, "float32")).shape == (4000,)
