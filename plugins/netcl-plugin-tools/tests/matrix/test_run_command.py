"""`netcl matrix run`: what it prints, its exit codes, its bar."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from netcl_plugin_tools.matrix import command as options
from netcl_plugin_tools.matrix import run as runs
from netcl_plugin_tools.matrix import uv
from netcl_plugin_tools.matrix.environments import Made
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.running import Runner
from netcl_plugin_tools.matrix.runtimes import RUNTIMES
from netcl_plugin_tools.matrix.supplies import Supplies
from netcl_plugin_tools.matrix.terminal import progress_of_cells
from rich.console import Console

from netcl_core.cli.main import netcl

PYTHON = Interpreter("3.11", "3.11.7", "/usr/bin/python3.11")


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
    said = " ".join(result.stdout.split())
    assert "2 pass, 0 fail, 0 setup_error, 1 unsupported; 3 cells, 0 of them" in said


def test_json_and_nothing_else_on_stdout(call: Callable[..., Result]) -> None:
    call()
    data = json.loads(call("--json").stdout)
    assert data["counts"] == {"pass": 2, "fail": 0, "setup_error": 0, "unsupported": 1}
    assert data["kept"] == 3
    assert data["cells"][1]["runtime"]["name"] == "numpy"


def test_parts_are_the_whole_and_one_report(call: Callable[..., Result], tmp_path: Path) -> None:
    folders = [tmp_path / f"part {number}" for number in (1, 2, 3, 4)]
    cells: list[Any] = []
    for number, folder in enumerate(folders, 1):
        result = call("--shard", f"{number}/4", "--records", str(folder), "--json")
        assert result.exit_code in ((0, 3) if number < 4 else (0,))
        cells.append(json.loads(result.stdout)["cells"])
        folder.mkdir(exist_ok=True)
    assert list(map(len, cells)) == [1, 1, 1, 0]
    names = {(each["core"], each["core_build"]) for part in cells for each in part}
    assert len(names) == 3
    given = [word for folder in (*folders, folders[0]) for word in ("--records", str(folder))]
    out = ["--out", str(tmp_path / "board"), "--json"]
    report = CliRunner().invoke(netcl, ["matrix", "report", *given, *out], catch_exceptions=False)
    assert report.exit_code == 0 and json.loads(report.stdout)["counts"]["pass"] == 2
    for wrong in ("0/2", "3/2", "2", "a/b"):
        result = call("--shard", wrong)
        assert result.exit_code == 2 and "the second of four" in result.output


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


def test_without_uv_it_says_how_to_get_it(
    call: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv, "find_uv_bin", None)
    monkeypatch.setattr(uv.shutil, "which", lambda _: None)
    result = call()
    assert result.exit_code == 3
    assert "Run `pip install --upgrade uv`" in result.stderr


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
        runs, "Supplies", lambda *given: folders.append(given[0]) or Supplies(*given)
    )
    call()
    assert folders == [tmp_path / "cache" / "matrix" / "locks"]


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
    with progress_of_cells(2, Console(force_terminal=True, width=160)) as watch:
        watch(cell().cell, None, False)
        watch(cell().cell, cell(state="fail"), False)
        watch(cell().cell, cell(), True)
    text = capsys.readouterr().out
    for words in ("2/2", "✓ 1", "✗ 1", "netcl-plugin-swish 0.3, core 0.1.1, Python 3.11, numpy"):
        assert words in text


def test_a_pipe_gets_none(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with progress_of_cells(1) as watch:
        watch(cell().cell, cell(), False)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_help_imports_no_work() -> None:
    code = """
import sys
from click.testing import CliRunner
from netcl_core.cli.main import netcl
done = CliRunner().invoke(netcl, ["matrix", "run", "--help"])
assert done.exit_code == 0 and "--rerun" in done.output, done.output
ours = [name for name in sys.modules if name.startswith("netcl_plugin_tools.matrix.")]
assert ours == ["netcl_plugin_tools.matrix.command"], ours
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- the workflow --------------------------------------------------------------------


def test_a_workflow_asks_for_what_the_commands_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wanted = "matrix workflow --core 0.1.4 --shards 2 --out .github/workflows/matrix.yml"
    assert CliRunner().invoke(netcl, wanted.split()).exit_code == 0
    text = " ".join(Path(".github/workflows/matrix.yml").read_text(encoding="utf-8").split())
    folders = ("dist/cores", "dist/plugins", "all/records-1", "all/records-2")
    for folder in folders:
        Path(folder).mkdir(parents=True)
    asked = text.replace("${{ matrix.shard }}", "2")
    words = asked.partition("netcl matrix run ")[2].partition(" || ")[0].split()
    context = options.matrix.commands["run"].make_context("run", words)
    assert (context.params["shard"], context.params["download"]) == ((2, 2), True)
    words = asked.partition("netcl matrix report ")[2].partition(" - uses")[0].split()
    context = options.matrix.commands["report"].make_context("report", words)
    assert len(context.params["records"]) == 2
