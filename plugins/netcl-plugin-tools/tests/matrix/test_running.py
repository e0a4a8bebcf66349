"""A run of a matrix: states, what is not run again, interrupts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_tools.matrix import running
from netcl_plugin_tools.matrix.environments import Made
from netcl_plugin_tools.matrix.plan import shelves, tasks
from netcl_plugin_tools.matrix.processes import Processes
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.records import latest, load
from netcl_plugin_tools.matrix.running import Runner
from netcl_plugin_tools.matrix.runtimes import RUNTIMES, Presence
from netcl_plugin_tools.matrix.supplies import Supplies, Supply
from netcl_plugin_tools.matrix.uv import Uv

PYTHON = Interpreter("3.11", "3.11.7", "/usr/bin/python3.11")


@pytest.fixture
def matrix(fake: Any, shelves_of: tuple[Path, Path], tmp_path: Path, numpy_path: Any) -> Any:
    """A function that runs a matrix of `swish`, the three cores and the NumPy path."""
    wheels = shelves(*shelves_of)
    processes = Processes()

    def run(
        rerun: Sequence[str] = (),
        python: Interpreter = PYTHON,
        presences: Sequence[Presence] | None = None,
        supply: Supply | None = None,
        timeout: float = 60,
        level: str = "run",
        watch: Any = lambda *_: None,
    ) -> list[running.CellResult]:
        supplies = Supplies(tmp_path / "locks", Uv("uv", tmp_path / "uv", processes))
        supplies.provide = lambda *_: supply or Supply()
        runner = Runner(
            processes, supplies, fake, wheels.folder, tmp_path / "records", timeout, rerun, watch
        )
        here = presences or [Presence(RUNTIMES["numpy"], device=numpy_path)]
        return runner.run(tasks(wheels, [python], here, level), 2)

    run.processes = processes
    return run


def states(results: Sequence[running.CellResult]) -> dict[str, str]:
    return {each.record.cell.core_label: each.record.state for each in results}


def reasons(results: Sequence[running.CellResult]) -> set[str]:
    return {each.record.reason for each in results}


# -- cells ---------------------------------------------------------------------------


def test_each_build_of_the_core_has_a_cell(matrix: Any, fake: Any, tmp_path: Path) -> None:
    results = matrix()
    assert states(results) == {"0.1.0": "unsupported", "0.1.1-1": "pass", "0.1.1-2": "pass"}
    said = "netcl-plugin-swish 0.3 needs netcl-core<0.2,>=0.1.1; there is 0.1.0"
    assert results[0].record.reason == said
    plugin = "netcl_plugin_swish-0.3-py3-none-any.whl"
    assert sorted(fake.made) == [
        ("3.11", f"netcl_core-0.1.1-{build}-py3-none-any.whl", plugin) for build in "12"
    ]
    names = sorted(path.name for path in (tmp_path / "records").iterdir())
    assert [name.split("__")[:4] for name in names] == [
        ["netcl-plugin-swish-0.3", core, "py3.11", "numpy"]
        for core in ("0.1.0", "0.1.1-1", "0.1.1-2")
    ]


def test_the_check_runs_as_a_user_would_run_it(
    matrix: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETCL_DEVICE", "opencl:7")
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    matrix()
    arguments, folder, variables = fake.calls()[0]
    said = "plugins check netcl-plugin-swish --json --level run --device numpy"
    assert arguments == said.split()
    assert not Path(folder).exists()  # a folder of its own, gone with the cell
    assert "NETCL_DEVICE" not in variables
    assert variables["OCL_ICD_VENDORS"] != "/mine"
    assert variables["NETCL_CACHE_DIR"].startswith(folder)


def test_under_the_simulator_only_its_own_check_runs(
    matrix: Any, fake: Any, check: Any, outcome: Any
) -> None:
    facts = {"platform": "oclgrind", "name": "simulator", "driver_version": "21.10"}
    fake.tell(check(outcomes=[outcome(check="sanitizer", device="oclgrind")]))
    results = matrix(presences=[Presence(RUNTIMES["oclgrind"], device=facts)])
    said = "plugins check netcl-plugin-swish --json --level full --only sanitizer"
    assert fake.calls()[0][0] == said.split()
    assert results[1].record.state == "pass"
    assert results[1].record.runtime["driver"] == "21.10"  # not that of the NumPy path beside it


def test_the_driver_is_that_of_the_cell(matrix: Any, fake: Any, check: Any) -> None:
    fake.tell(check(devices=[{**check()["devices"][0], "driver": "2.9"}]))
    record = matrix()[1].record
    assert (record.state, record.reason) == ("pass", "")
    assert record.runtime["driver"] == "2.9"


def test_a_failure_carries_its_reason_and_record(
    matrix: Any, fake: Any, check: Any, outcome: Any
) -> None:
    bad = outcome(state="failed", reason="0.3, not 0.5")
    fake.tell(check(state="fail", outcomes=[bad]), code=1)
    record = matrix()[1].record
    assert (record.state, record.reason) == ("fail", "swish values float32: 0.3, not 0.5")
    assert record.check is not None
    assert record.packages == {"numpy": "2.4"}
    assert record.runtime["driver"] == "2.4"


def test_a_check_that_hangs(matrix: Any, fake: Any) -> None:
    fake.tell(sleep=60, stderr="never seen")
    assert reasons(matrix(timeout=0.5)[1:]) == {"the check ran out of time"}


def test_a_check_that_crashes(matrix: Any, fake: Any) -> None:
    fake.tell(signal=11)
    results = matrix()[1:]
    assert {each.record.state for each in results} == {"setup_error"}
    assert reasons(results) == {"the check was ended by SIGSEGV"}


def test_a_check_that_does_not_start(matrix: Any, fake: Any) -> None:
    (fake.folder / "bin" / "netcl").unlink()
    results = matrix()[1:]
    assert {each.record.state for each in results} == {"setup_error"}
    assert "exit code 127 without a record" in results[0].record.reason
    assert "No such file" in results[0].record.log


def test_a_device_that_the_environment_refuses(
    matrix: Any, fake: Any, opencl: Any, numpy_path: Any
) -> None:
    refused = {"name": "pthread", "platform": opencl["platform"], "reason": "no build"}
    fake.tell(devices={"rejected": [refused], "devices": [numpy_path]}, code=3)
    results = matrix(presences=[Presence(RUNTIMES["pocl-wheel"], device=opencl)])[1:]
    assert reasons(results) == {"the device pthread cannot be used: no build"}
    assert {each.record.state for each in results} == {"fail"}


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"python": Interpreter("3.99", problem="not found")}, "setup_error", "not found"),
        ({"python": Interpreter("3.9", "3.9.1")}, "unsupported", "needs Python >=3.11"),
        ({"presences": [Presence(RUNTIMES["gpu"], missing="no GPU")]}, "unsupported", "no GPU"),
        ({"presences": [Presence(RUNTIMES["intel"], problem="a\n/x")]}, "setup_error", "a"),
        ({"supply": Supply(problem="no numpy\npip says so")}, "setup_error", "no numpy"),
        ({"supply": Supply(problem="a or b", excluded=True)}, "unsupported", "a or b"),
    ],
)
def test_a_cell_that_cannot_be_run_is_not_green(
    matrix: Any, fake: Any, changes: dict[str, Any], state: str, reason: str
) -> None:
    results = matrix(**changes)
    assert results[-1].record.state == state
    assert reason in results[-1].record.reason
    assert "\n" not in results[-1].record.reason
    assert fake.calls() == []


@pytest.mark.parametrize("excluded", [True, False])
def test_an_environment_that_cannot_be_made(matrix: Any, fake: Any, excluded: bool) -> None:
    fake.answer = Made(problem="pip install ended with exit code 1\nlast\nlines", excluded=excluded)
    record = matrix()[-1].record
    assert record.state == ("unsupported" if excluded else "setup_error")
    assert record.log == "last\nlines"


# -- records -------------------------------------------------------------------------


def test_the_same_content_is_not_run_again(matrix: Any, fake: Any, tmp_path: Path) -> None:
    first = matrix()
    again = matrix()
    assert [each.kept for each in again] == [True, True, True]
    assert [each.record for each in again] == [each.record for each in first]
    assert len(fake.calls()) == 2
    assert len(list((tmp_path / "records").iterdir())) == 3


def test_what_else_a_failure_says_makes_no_new_record(matrix: Any, tmp_path: Path) -> None:
    """The last lines hold names of temporary folders."""
    for text in ("no disk\nhow\n/tmp/one", "no disk\nhow\n/tmp/two"):
        results = matrix(presences=[Presence(RUNTIMES["intel"], problem=text)])
        assert results[-1].record.reason == "no disk: /tmp/one"
    assert len(load(tmp_path / "records")[0]) == 3


def test_another_content_is_run_again(
    matrix: Any, fake: Any, numpy_path: Any, make_wheel: Any, shelves_of: tuple[Path, Path]
) -> None:
    matrix()
    newer = Presence(RUNTIMES["numpy"], device={**numpy_path, "driver_version": "2.5"})
    for changes in (
        {"presences": [newer]},
        {"python": Interpreter("3.11", "3.11.8")},
        {"supply": Supply((("numpy-2.5.whl", "digest"),))},
    ):
        assert not any(each.kept for each in matrix(**changes)[1:]), changes
    assert len(fake.calls()) == 8


def test_another_level_is_another_cell(matrix: Any, fake: Any, tmp_path: Path) -> None:
    matrix()
    assert not any(each.kept for each in matrix(level="static"))
    assert "--device" not in fake.calls()[-1][0]  # it runs nothing
    assert len(latest(load(tmp_path / "records")[0])) == 6


def test_rerun_names_what_runs_again(matrix: Any, fake: Any, check: Any, outcome: Any) -> None:
    bad = outcome(state="failed", reason="off by one")
    fake.tell(check(state="fail", outcomes=[bad]), code=1)
    matrix()
    fake.tell(check())
    assert states(matrix())["0.1.1-1"] == "fail"
    assert states(matrix(rerun=["setup_error"]))["0.1.1-1"] == "fail"
    mended = matrix(rerun=["fail"])
    assert states(mended)["0.1.1-1"] == "pass"
    assert [each.kept for each in mended] == [True, False, False]
    assert not any(each.kept for each in matrix(rerun=["all"]))


# -- interrupts ----------------------------------------------------------------------


def test_an_interrupt_leaves_the_finished_cells(matrix: Any, fake: Any, tmp_path: Path) -> None:
    fake.tell(sleep=60)
    begun = threading.Semaphore(0)
    stopper = threading.Thread(target=lambda: (begun.acquire(), matrix.processes.stop()))

    def watch(cell: Any, record: Any, kept: bool) -> None:
        if record is None and cell.core_label == "0.1.1-2":
            begun.release()

    stopper.start()
    with pytest.raises(KeyboardInterrupt):
        matrix(watch=watch)
    stopper.join(30)
    assert [each.cell.core_label for each in load(tmp_path / "records")[0]] == ["0.1.0"]


def test_an_interrupt_while_cells_are_handed_out(
    matrix: Any, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = running.ThreadPoolExecutor.submit
    handed: list[Any] = []

    def interrupted(self: Any, work: Any, task: Any, record: Any) -> Any:
        handed.append(task)
        if len(handed) == 3:
            raise KeyboardInterrupt
        return submit(self, work, task, record)

    fake.tell(sleep=60)
    monkeypatch.setattr(running.ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        matrix(timeout=5)
    assert matrix.processes.stopped
