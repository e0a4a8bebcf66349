"""`python benchmarks`: items are found, picked and told; the exit code says what went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from harness import run as running
from harness.command import bench as command
from harness.finding import items_in

ITEM = """
import numpy as np
from harness import function_cases
FORMS = {{"netcl": lambda ag, x: {form}, "numpy": lambda np, x: np.maximum(x, 0)}}
def cases(kind):
    for size in (4, 8):
        data = lambda size=size: [np.ones(size, np.float32)]
        yield from function_cases(f"relu {{size}}", FORMS, data)
"""
Run = Callable[..., Result]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls the command in a folder with an item and a script; its clock takes a turn's length."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "relu.py").write_text(ITEM.format(form="ag.relu(x)"))
    (folder / "script.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        fixed = ("--device", "numpy", "--peers", "numpy", "--budget", "1e-4")
        return CliRunner().invoke(command, [*fixed, *words])

    return call


def names(path: Path) -> list[str]:
    return [each["case"] for each in json.loads(path.read_text())["results"]]


def test_a_run_leaves_a_record_and_a_drawing(bench: Run, tmp_path: Path) -> None:
    done = bench("--json", "a.json", "--svg", "a.svg")
    assert done.exit_code == 0, done.output
    data = json.loads((tmp_path / "a.json").read_text())
    assert names(tmp_path / "a.json") == [
        f"relu {size} {phase}" for size in (4, 8) for phase in ("forward", "forward+backward")
    ]
    outcomes = data["results"][0]["outcomes"]
    assert [*outcomes] == ["netcl", "netcl-compiled", "netcl-replay", "numpy"]
    assert {each["state"] for each in outcomes.values()} == {"timed"}
    assert data["device"]["name"] == "NumPy" and data["date"] and data["versions"]["numpy"]
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")
    assert "relu/relu 4 forward" in done.output


def test_cases_are_picked(bench: Run, tmp_path: Path) -> None:
    assert bench("relu/8 forward", "relu/4 forward+", "--json", "a.json").exit_code == 0
    found = names(tmp_path / "a.json")
    assert found == ["relu 4 forward+backward", "relu 8 forward", "relu 8 forward+backward"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("rel",), "there is no item 'rel'; expected one of relu. Did you mean relu"),
        (("script",), "there is no item 'script'"),
        (("relu/16",), "no case of relu has '16' in its name"),
        (("--peers", "numpi"), "--peers numpi; expected some of netcl,"),
        (("--json", "none/a.json"), "there is no folder none"),
        (("--against", "benchmarks"), "0 records in benchmarks, none of NumPy"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(bench: Run, words: Any, text: str) -> None:
    done = bench(*words)
    assert done.exit_code == 2 and text in done.output, done.output


def test_a_file_that_cannot_be_imported_is_named(bench: Run, tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "bad.py").write_text("1 / 0\ndef cases(kind): ...\n")
    done = bench("bad")
    assert done.exit_code == 2 and "bad.py raised ZeroDivisionError" in done.output


def test_wrong_results_of_ours_end_with_1(bench: Run, tmp_path: Path) -> None:
    (tmp_path / "benchmarks" / "relu.py").write_text(ITEM.format(form="ag.neg(x)"))
    done = bench("relu/4 forward+")
    assert done.exit_code == 1
    assert "relu/relu 4 forward+backward: netcl wrong, off by" in done.output


def test_a_run_is_held_against_the_last_record(bench: Run, tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    assert bench("relu/4 forward", "--json", "records/a.json").exit_code == 0
    done = bench("relu/4 forward", "--against", "records", "--tolerance", "1e6")
    assert done.exit_code == 0 and "nothing fell behind" in done.output
    data = json.loads((records / "a.json").read_text())
    data["results"] = [each for each in data["results"] if each["case"] == "relu 4 forward"]
    for outcome in data["results"][0]["outcomes"].values():
        if outcome["ours"]:
            outcome["seconds"] *= 1e-6
    (records / "a.json").write_text(json.dumps(data))
    done = bench("relu/4 forward", "--against", "records")
    assert done.exit_code == 1
    assert "fell behind: relu/relu 4 forward: netcl takes" in done.output
    assert done.output.count("once more: relu/relu 4 forward\n") == 1


def test_an_interrupted_run_leaves_what_it_has(bench: Run, tmp_path: Path) -> None:
    data = "[np.ones(size, np.float32)]"
    stopping = f"{data} if size == 4 else (_ for _ in ()).throw(KeyboardInterrupt())"
    text = ITEM.format(form="ag.relu(x)").replace(data, stopping)
    (tmp_path / "benchmarks" / "relu.py").write_text(text)
    assert bench("--json", "a.json").exit_code == 1
    assert names(tmp_path / "a.json") == ["relu 4 forward", "relu 4 forward+backward"]


def test_items_of_several_folders(bench: Run, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "mine.py").write_text(ITEM.format(form="ag.relu(x)"))
    assert [*items_in([tmp_path / "benchmarks", own])] == ["relu", "mine"]
    assert bench("mine/4", "--items", "own").exit_code == 0


def test_the_budget_and_how_threads_wait_are_in_the_record(bench: Run, tmp_path: Path) -> None:
    bench("relu/4", "--json", "a.json")
    settings = json.loads((tmp_path / "a.json").read_text())["settings"]
    assert settings["budget"] == "0.0001" and settings["OMP_WAIT_POLICY"]


def test_ours_take_part_unless_some_of_them_are_named() -> None:
    assert running._wanted("torch") == ["netcl", "netcl-compiled", "netcl-replay", "torch"]
    assert running._wanted("netcl-replay,torch") == ["netcl-replay", "torch"]
    assert len(running._wanted("")) > 6
