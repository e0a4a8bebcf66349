"""Nothing that a plugin does reaches further than itself: hooks, prints, files, settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from broken import GOOD, install_broken
from click.testing import CliRunner
from distributions import TEMPLATE, install, install_plugin
from environments import ROOT
from netcl_market import doctor
from netcl_market.doctor_checks import doctor_checks
from netcl_market.states import States
from netcl_market.survey import survey

import netcl_core as nc
from netcl_core.cli import main
from netcl_core.hardware import runtimes
from netcl_core.plugins import hooks

# -- hooks -----------------------------------------------------------------------------


class Odd:
    """A plugin whose hooks do one thing, after they have offered something."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act

    @nc.hookimpl
    def netcl_cli_commands(self, add_command: Callable[[Any], None]) -> None:
        add_command(click.Command("odd"))
        self.act()

    @nc.hookimpl
    def netcl_doctor(self) -> Any:
        yield "odd", True, "fine"
        self.act()


def leave() -> None:
    raise SystemExit(0)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture(
    params=[leave, interrupt, lambda: time.sleep(60)], ids=["exit", "interrupt", "hang"]
)
def odd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hooks.ask, "__defaults__", (0.3,))
    nc.plugins.register(Odd(request.param), "odd")
    yield
    nc.plugins.unregister("odd")
    hooks._endless.clear()


def test_a_hook_that_leaves_or_stays_takes_no_command_along(odd: None) -> None:
    with pytest.warns(nc.plugins.PluginWarning, match="'odd'.* has no commands"):
        said = CliRunner().invoke(main.netcl, ["--help"])
    assert said.exit_code == 0 and " cache " in said.stdout and " odd " not in said.stdout
    with pytest.warns(nc.plugins.PluginWarning, match="'odd'.* has no commands"):
        assert CliRunner().invoke(main.netcl, ["plugins", "lock", "--help"]).exit_code == 0


def test_the_doctor_reports_a_hook_that_leaves_or_stays(odd: None) -> None:
    (finding,) = [each for each in doctor_checks() if "odd" in each[0]]
    assert finding[:2] == ("plugin odd", False)
    assert any(word in finding[2] for word in ("SystemExit", "Interrupt", "did not return"))


# -- imports ---------------------------------------------------------------------------


def test_the_users_interrupt_is_no_fault_of_a_plugin(tmp_path: Path) -> None:
    """It ends the program, and the plugin that was being imported is not blamed."""
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n" + GOOD.format(name="late_op")
    install_plugin(tmp_path / "site", "late", code, {"plus.cl.j2": TEMPLATE})
    path = os.pathsep.join((str(tmp_path / "site"), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", "import netcl_core as nc; nc.plugins.list()"],
        env={**os.environ, "PYTHONPATH": path, "NETCL_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr
    assert "quarantined" not in done.stderr
    assert not (tmp_path / "plugins" / "states.json").exists()


def test_what_a_plugin_prints_at_import_is_no_output(tmp_path: Path) -> None:
    code = "print('a banner', flush=True)\n" + GOOD.format(name="loud_op")
    install_plugin(tmp_path / "site", "loud", code, {"plus.cl.j2": TEMPLATE})
    path = os.pathsep.join((str(tmp_path / "site"), str(ROOT)))
    words = ["plugins", "why", "loud_op", "--device", "numpy", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "netcl_core.cli.start", *words],
        env={**os.environ, "PYTHONPATH": path, "NETCL_PLUGINS": "loud, kit"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["op"] == "loud_op" and done.stderr == "a banner\n"


def test_an_op_of_a_broken_short_road_names_its_plugin(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    points = {"netcl_core.primitives": {"short_lost": "short_lost:short_lost"}}
    install(tmp_path, "lost-kernels", {"short_lost.py": "1 / 0"}, points)
    code = """
import warnings
import netcl_core.autograd as ag
warnings.simplefilter("ignore")
try:
    ag.short_lost
except AttributeError as error:
    print(error)
"""
    said = python(code, PYTHONPATH=str(tmp_path))
    assert "lost-kernels is installed but quarantined (ZeroDivisionError" in said


# -- files -----------------------------------------------------------------------------


def test_a_fifo_for_a_file_is_passed_over(tmp_path: Path, python: Callable[..., str]) -> None:
    info = install_plugin(tmp_path, "piped", GOOD.format(name="piped_op"))
    for name in ("entry_points.txt", "RECORD"):
        (info / name).unlink()
        os.mkfifo(info / name)
    code = (
        "import netcl_core as nc; print(len([p for p in nc.plugins.list() if p.name == 'piped']))"
    )
    assert python(code, PYTHONPATH=str(tmp_path)) == "0"


def test_a_byte_order_mark_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path, "marked", "", manifest="\ufeff[plugin]\nsummary = 'fine'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [each for each in survey(States()) if each.name == "marked"]
    assert found.manifest is not None and found.manifest.summary == "fine"


ESCAPES = """
[plugin]
summary = "\\u001b[2Jgone\\u202e"
license = "\\u009b31m"
[[provides]]
name = "m_op"
kind = "\\u001b]0;title\\u0007"
"""


def test_no_control_character_of_a_plugin_reaches_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = ["Summary: \x1b[31mred", "License: \x9b1m"]
    install_plugin(tmp_path, "m_bad", "", manifest=ESCAPES, headers=headers)
    install_plugin(tmp_path, "m_worse", "", headers=headers)
    install_broken(tmp_path, "escaping")
    monkeypatch.syspath_prepend(str(tmp_path))
    nowhere = Path("nowhere")
    for words in (["list"], ["info", "m_bad"], ["info", "m_worse"], ["list", "--json"]):
        said = CliRunner().invoke(main.netcl, ["plugins", *words], color=True).output
        assert not {"\x1b", "\x9b", "\x07", "\u202e"} & set(said), nowhere
    assert (
        r"\x1b[2Jgone\u202e" in CliRunner().invoke(main.netcl, ["plugins", "info", "m_bad"]).output
    )


# -- the rest of the command line ------------------------------------------------------


def test_the_doctor_lists_a_bad_file_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.icd").write_text("/nowhere/libmine.so\n")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path))
    (found,) = [each for each in runtimes.discover() if each.icd == tmp_path / "broken.icd"]
    assert (found.source, found.accepted) == ("user", False)
    report = doctor.collect()
    assert "broken" in [each["name"] for each in report["runtimes"]]
    said = f"runtime broken in {tmp_path}/broken.icd: /nowhere/libmine.so does not exist"
    assert said in report["findings"]


@pytest.mark.parametrize("op", ["softmax", "matmul", "conv2d", "gather"])
def test_kernels_of_a_structured_op_are_shown_without_shapes(op: str) -> None:
    said = CliRunner().invoke(main.netcl, ["kernels", "show", op])
    assert said.exit_code == 0, said.output
    assert "--shapes gives others" in said.stdout and "get_global_id" in said.stdout


def test_where_shapes_are_needed_the_option_is_named() -> None:
    said = CliRunner().invoke(main.netcl, ["kernels", "show", "cat"])
    assert said.exit_code == 2 and "netcl kernels show cat --shapes" in said.stderr
