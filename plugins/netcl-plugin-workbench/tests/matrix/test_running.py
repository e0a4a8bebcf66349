"""A run of a matrix: states, immutable records, what is not run again, interrupts, the command."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from netcl_plugin_workbench.matrix import command as options
from netcl_plugin_workbench.matrix import run as runs
from netcl_plugin_workbench.matrix import running
from netcl_plugin_workbench.matrix.environments import Made
from netcl_plugin_workbench.matrix.plan import shelves, tasks
from netcl_plugin_workbench.matrix.processes import Processes
from netcl_plugin_workbench.matrix.progress import Bar
from netcl_plugin_workbench.matrix.pythons import Interpreter
from netcl_plugin_workbench.matrix.records import latest, load, save
from netcl_plugin_workbench.matrix.running import Runner
from netcl_plugin_workbench.matrix.runtimes import RUNTIMES, Presence
from netcl_plugin_workbench.matrix.wheelhouse import Supply, Wheelhouse
from rich.console import Console

from netcl_core.cli.main import netcl
from netcl_core.errors import RecordError

PYTHON = Interpreter("3.11", "3.11.7", "/usr/bin/python3.11", True)


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
    ) -> list[running.Result]:
        house = Wheelhouse(tmp_path / "house", processes)
        house.provide = lambda *_: supply or Supply()
        runner = Runner(
            processes, house, fake, wheels.folder, tmp_path / "records", timeout, rerun, watch
        )
        here = presences or [Presence(RUNTIMES["numpy"], device=numpy_path)]
        return runner.run(tasks(wheels, [python], here, level), 2)

    run.processes = processes
    return run


def states(results: Sequence[running.Result]) -> dict[str, str]:
    return {each.record.cell.core_label: each.record.state for each in results}


def reasons(results: Sequence[running.Result]) -> set[str]:
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
    said = "plugins check netcl-plugin-swish --json --level run --device cpu"
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
    assert matrix()[1].record.runtime["driver"] == "2.9"


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
    assert {each.record.state for each in results} == {"fail"}
    assert reasons(results) == {"the device pthread cannot be used: no build"}


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
        {"python": Interpreter("3.11", "3.11.8", "", True)},
        {"supply": Supply((Path("numpy-2.5.whl"),))},
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


def test_a_record_is_never_changed(cell: Any, tmp_path: Path) -> None:
    path = save(cell(), tmp_path)
    before = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert save(cell(), tmp_path) == path
    assert save(cell(state="fail"), tmp_path) != path
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    assert path.name.startswith("netcl-plugin-swish-0.3__0.1.1__py3.11__numpy__20261122T010000Z-")


def test_a_file_in_the_way_is_not_overwritten(cell: Any, tmp_path: Path) -> None:
    path = save(cell(), tmp_path)
    path.unlink()
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        save(cell(), tmp_path)
    assert [each.read_text() for each in tmp_path.iterdir()] == ["mine"]


def test_a_record_reads_back_equal(cell: Any, check: Any, tmp_path: Path) -> None:
    from_check = running.judging.from_json(check())
    record = cell(check=from_check, log="a\nb")
    save(record, tmp_path)
    assert load(tmp_path) == ([record], [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": 2}, "schema 2; expected 1. Upgrade netcl-plugin-workbench"),
        ({"state": "green"}, "state 'green'"),
        ({"date": "yesterday"}, "Invalid isoformat"),
        ({"runtime": {"name": "numpy"}}, "runtime ['name']"),
        ({"check": {"kind": "check", "schema": 1}}, "expected the fields"),
        ({"level": "deep"}, "level 'deep'"),
        ({"version": "new"}, "Invalid version"),
        ({"plugin": "../../elsewhere"}, "the name '../../elsewhere'"),
        ({"python": "three"}, "Python 'three'"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(
    cell: Any, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({**cell().as_json(), **changes}))
    (tmp_path / "good.json").write_text(json.dumps(cell().as_json()))
    found, (error,) = load(tmp_path)
    assert len(found) == 1  # one bad file hides no other
    assert isinstance(error, RecordError) and "bad.json" in str(error)
    assert words in str(error)


def test_other_records_are_passed_over(check: Any, tmp_path: Path) -> None:
    (tmp_path / "check.json").write_text(json.dumps(check()))
    assert load(tmp_path) == ([], [])
    (tmp_path / "none.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    found, broken = load(tmp_path)
    assert found == [] and [str(each).split(":")[0] for each in broken] == [
        "deep.json",
        "none.json",
    ]


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


# -- the command ---------------------------------------------------------------------


@pytest.fixture
def call(
    fake: Any,
    shelves_of: tuple[Path, Path],
    tmp_path: Path,
    numpy_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Result]:
    """A function that calls `netcl matrix run`; its environments are the fake one."""
    cores, plugins = shelves_of
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(runs, "Environments", lambda *_: fake)
    found = {"devices": [numpy_path], "rejected": [], "opencl_problem": "no platform"}
    monkeypatch.setattr(runs, "devices_here", lambda *_: lambda _: found)

    def run(*arguments: str) -> Result:
        given = ["--cores", cores, "--plugins", plugins, "--records", tmp_path / "records"]
        command = ["matrix", "run", *map(str, given), "--runtime", "numpy", *arguments]
        return CliRunner().invoke(netcl, command, catch_exceptions=False)

    return run


def test_the_command_prints_what_is_not_green(call: Callable[..., Result]) -> None:
    result = call()
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["state", "cells", "first", "of", "them", "why"]
    assert lines[1].startswith("/  unsupported  1")
    assert "2 pass, 0 fail, 0 setup_error, 1 unsupported; 3 cells, 0 of them" in lines[-1]
    assert "Environments are made by nothing" in result.stderr


def test_json_and_nothing_else_on_stdout(call: Callable[..., Result]) -> None:
    call()
    data = json.loads(call("--json").stdout)
    assert data["counts"] == {"pass": 2, "fail": 0, "setup_error": 0, "unsupported": 1}
    assert data["kept"] == 3
    assert data["cells"][1]["runtime"]["name"] == "numpy"


def test_a_failed_cell_is_exit_code_1(
    call: Callable[..., Result], fake: Any, check: Any, outcome: Any
) -> None:
    fake.tell(check(state="fail", outcomes=[outcome(state="failed", reason="off")]), code=1)
    assert call().exit_code == 1
    assert call().exit_code == 1  # kept from the record


def test_nothing_that_ran_is_exit_code_3(call: Callable[..., Result], fake: Any) -> None:
    fake.answer = Made(problem="no disk")
    assert call().exit_code == 3
    assert call("--python", "3.99").exit_code == 3


def test_an_interrupt_says_how_to_go_on(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "run", interrupt)
    result = call()
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr


def test_a_run_that_is_asked_to_end(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Runner, "run", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    assert call().exit_code == 130
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--runtime", "cuda"], "'cuda' is not one of"),
        (["--index-url", "https://index.example"], "--index-url needs --download"),
        (["--jobs", "0"], "--jobs"),
        (["--rerun", "pass"], "'pass' is not one of"),
        (["--find-links", "/nowhere"], "does not exist"),
    ],
)
def test_wrong_usage(call: Callable[..., Result], arguments: list[str], words: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_the_cache_may_be_named_relative_to_here(
    call: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETCL_CACHE_DIR", "cache")
    folders: list[Path] = []
    monkeypatch.setattr(
        runs, "Wheelhouse", lambda *given: folders.append(given[0]) or Wheelhouse(*given)
    )
    call()
    assert folders == [tmp_path / "cache" / "matrix" / "wheelhouse"]


def test_the_options_name_every_runtime() -> None:
    """They are written out there, since `--help` imports no work."""
    assert set(options._RUNTIMES) == set(RUNTIMES)
    assert set(options._USUAL) == set(RUNTIMES) - {"pocl-wheel"}


def test_a_folder_without_cores(call: Callable[..., Result], tmp_path: Path) -> None:
    result = call("--cores", str(tmp_path))
    assert result.exit_code == 3
    assert "expected a wheel of netcl-core" in result.output


# -- progress ------------------------------------------------------------------------


def test_a_terminal_gets_a_bar(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(2, Console(force_terminal=True, width=160)) as bar:
        bar.watch(cell().cell, None, False)
        bar.watch(cell().cell, cell(state="fail"), False)
        bar.watch(cell().cell, cell(), True)
    text = capsys.readouterr().out
    for words in ("2/2", "✓ 1", "✗ 1", "netcl-plugin-swish 0.3, core 0.1.1, Python 3.11, numpy"):
        assert words in text


def test_a_pipe_gets_none(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Bar(1) as bar:
        bar.watch(cell().cell, cell(), False)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_help_imports_no_work() -> None:
    code = """
import sys
from click.testing import CliRunner
from netcl_core.cli.main import netcl
done = CliRunner().invoke(netcl, ["matrix", "run", "--help"])
assert done.exit_code == 0 and "--rerun" in done.output, done.output
ours = [name for name in sys.modules if name.startswith("netcl_plugin_workbench.matrix.")]
assert ours == ["netcl_plugin_workbench.matrix.command"], ours
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
