"""The command line: what it prints, its exit codes, and how errors and plugins reach it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from netcl_market import doctor, tables
from terminal import on_terminal

from netcl_core.cli import devices, main
from netcl_core.errors import DeviceError, PluginError
from netcl_core.hardware import device_table, runtimes
from netcl_core.hardware.device import Device, stand_in
from netcl_core.version import VERSION


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, list(arguments))


def card() -> Device:
    """A device that is not there, with long names."""
    made = stand_in("gpu")
    made.id = "opencl:0"
    made.name = "A card with a rather long name [rev 2] and a codename in brackets"
    made.platform = "A platform with a long name as well"
    made.local_mem_bytes, made.extensions = 49152, ("cl_khr_fp64",)
    return made


DEVICE = card()


def report(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "python": "3.11.7 (/usr/bin/python)",
        "system": "Linux x86_64",
        "netcl": VERSION,
        "pyopencl": "2026.1",
        "opencl_problem": "",
        "vendors_status": "generated",
        "vendors_folder": "/cache/netcl-icd-0",
        "vendors_reason": "lists them",
        "opencl_usable": changes.get("devices") != [],
        "runtimes": [
            {
                "name": "pocl",
                "source": "system",
                "library": "libpocl.so",
                "icd": None,
                "accepted": True,
                "loaded": True,
                "reason": "ok",
            }
        ],
        "devices": [devices.device_data(DEVICE)],
        "rejected": [],
        "default": "opencl:0",
        "default_rule": "the first GPU",
        "cache": {"folder": "/cache", "exists": True, "files": 2, "size_bytes": 3 * 2**20},
        "variables": {"NETCL_DEVICE": "opencl"},
    }
    return {**values, "checks": [], "findings": [], **changes}


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def give(**changes: Any) -> None:
        made = report(**changes)
        monkeypatch.setattr(doctor, "collect", lambda **_: made)
        monkeypatch.setattr(doctor, "probe", lambda: None)

    return give


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"findings": ["device x of P: boom"]}, 1),
        ({"devices": []}, 3),
        ({"devices": [], "findings": ["x"]}, 3),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_doctor_exit_codes(
    given: Callable[..., None], changes: dict[str, Any], code: int, options: tuple[str, ...]
) -> None:
    given(**changes)
    assert run("doctor", *options).exit_code == code


def test_doctor_json_is_the_whole_report(given: Callable[..., None]) -> None:
    given()
    data = json.loads(run("doctor", "--json").stdout)
    assert data == report()
    assert data["devices"][0]["local_mem_bytes"] == 49152


def test_doctor_in_a_pipe_wraps_what_is_long_and_nothing_else(given: Callable[..., None]) -> None:
    given(
        rejected=[{"name": "Old", "platform": "P", "reason": "reason " * 40 + "end"}],
        checks=[{"name": "wheels", "ok": False, "detail": "two copies"}],
        findings=["something [odd]"],
    )
    text = run("doctor").stdout
    assert f"Old   P         {'reason ' * 40}end" in re.sub(r"\n {16}", " ", text)
    wide = [line for line in text.splitlines() if len(line) > 80]
    assert all(max(map(len, line.split())) > 30 for line in wide), wide
    assert all(word in text for word in f"{DEVICE.name} {DEVICE.platform}".split())
    for part in ("3.0 MiB", "NETCL_DEVICE", "two copies", "- something [odd]", "the first GPU"):
        assert part in text
    assert "\x1b" not in text


def test_table_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_columns", lambda: 80)
    monkeypatch.setattr(tables.sys.stdout, "isatty", lambda: True)
    devices.print_devices([devices.device_data(DEVICE)], "opencl:0")
    _, first, *more = capsys.readouterr().out.splitlines()
    assert more and all(len(line) <= 80 for line in (first, *more))
    assert "opencl:0" in first and "A card" in first and "A pla" in first
    assert "brackets" in more[-1] or "as well" in more[-1]


def test_real_devices() -> None:
    result = run("devices", "--json")
    data = json.loads(result.stdout)
    assert result.exit_code == 0
    assert data["devices"][-1]["id"] == "numpy"
    assert data["default"] in {one["id"] for one in data["devices"]}
    text = run("devices").stdout
    assert "NumPy" in text and "* the default: " in text


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_real_doctor_on_a_terminal(tmp_path: Path) -> None:
    """On an 80-column terminal, with the real devices: no line is longer, nothing crashes."""
    code, text = on_terminal(["doctor"], tmp_path / "errors", COLUMNS="80", TERM="dumb")
    assert code in {0, 1, 3}
    assert (tmp_path / "errors").read_text() == ""
    assert all(len(line.rstrip()) <= 80 for line in text.decode().splitlines())


def test_netcl_error_is_its_text_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise DeviceError("device: it broke.\nnumbered source\n")

    monkeypatch.setattr(devices, "show_devices", fail)
    result = run("devices")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "netcl: device: it broke.\nnumbered source\n"


def test_netcl_error_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise DeviceError("it broke")

    monkeypatch.setattr(devices, "show_devices", fail)
    assert "\x1b[31m" in CliRunner().invoke(main.netcl, ["devices"], color=True).stderr


def test_wrong_environment_variable(python: Callable[..., str]) -> None:
    code = """
from click.testing import CliRunner
from netcl_core.cli.main import netcl
result = CliRunner().invoke(netcl, ["devices"])
assert result.exit_code == 3, result
print(result.stderr)
"""
    assert python(code, NETCL_DEVICE="opencl:77").startswith("netcl: NETCL_DEVICE: ")


def test_unknown_command_is_wrong_usage() -> None:
    result = run("frobnicate")
    assert result.exit_code == 2
    assert "No such command" in result.stderr


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A plugin that brings `matrix` and another `devices`; the list records each asking."""
    asked: list[str] = []

    def commands() -> dict[str, click.Command]:
        asked.append("asked")
        matrix = click.Command("matrix", callback=lambda: click.echo("cells"), help="Run it.")
        return {"matrix": matrix, "devices": click.Command("devices")}

    monkeypatch.setattr(main, "plugin_commands", commands)
    return asked


def test_plugin_command(plugins: list[str]) -> None:
    assert run("matrix").stdout == "cells\n"
    assert "matrix" in run("--help").stdout


def test_plugins_are_not_asked_for_built_in_commands(
    plugins: list[str], given: Callable[..., None]
) -> None:
    given()
    assert run("doctor").exit_code == 0
    assert plugins == []


def test_a_broken_plugin_leaves_the_help(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> dict[str, click.Command]:
        raise PluginError("plugin 'x': cannot be imported")

    monkeypatch.setattr(main, "plugin_commands", broken)
    result = run("--help")
    assert result.exit_code == 0 and "doctor" in result.stdout
    assert "cannot be imported" in result.stderr
    assert run("other").exit_code == 3


def test_importing_the_command_line_is_light(python: Callable[..., str]) -> None:
    code = """
import sys
import netcl_core.cli.main
heavy = {'pyopencl', 'jinja2', 'pluggy', 'numpy', 'rich'} & set(sys.modules)
assert not heavy, heavy
"""
    python(code)


# -- the doctor's own collecting ---------------------------------------------------------


def test_collect_is_plain_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/program.bin").write_bytes(b"x" * 100)
    data = doctor.collect([("wheels", False, "two copies")])
    assert json.loads(json.dumps(data)) == data
    assert data["cache"]["files"] == 1 and data["cache"]["size_bytes"] == 100
    assert "check wheels: two copies" in data["findings"]
    assert data["devices"][-1]["backend"] == "numpy"
    assert data["opencl_usable"] is (len(data["devices"]) > 1)


def test_collect_says_why_a_runtime_was_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = runtimes.Runtime("x", "/nowhere/libx.so", "pip", None, True, "installed by pip")
    monkeypatch.setattr(doctor, "discover", lambda: [bad])
    monkeypatch.setattr(doctor, "_loaded", lambda _: False)
    (finding,) = [one for one in doctor.collect()["findings"] if one.startswith("runtime")]
    assert "not loaded" in finding and "/nowhere/libx.so" in finding


def test_collect_reports_a_wrong_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_table, "_choice", device_table._Choice())
    monkeypatch.setenv("NETCL_DEVICE", "opencl:77")
    made = doctor.collect()
    assert made["default"] is None
    assert any("opencl:77" in one for one in made["findings"])


def test_discovery_switched_off_is_no_finding(python: Callable[..., str]) -> None:
    code = """
from netcl_market import doctor
made = doctor.collect()
assert made['vendors_status'] == 'off' and made['vendors_folder'] is None, made
assert not [one for one in made['findings'] if one.startswith('runtime')], made
"""
    python(code, NETCL_ICD_DISCOVERY="0")


def test_a_loader_that_started_too_early_is_explained(python: Callable[..., str]) -> None:
    """Someone called OpenCL before netcl could list the environment's runtimes."""
    pytest.importorskip("pyopencl")
    code = """
import pyopencl
try:
    pyopencl.get_platforms()
except pyopencl.Error:
    pass
from netcl_market import doctor
made = doctor.collect()
late = [one for one in made['runtimes'] if one['accepted'] and one['loaded'] is False]
assert all('had started before' in one['reason'] for one in late), late
assert len(made['findings']) >= len(late)
print(len(late))
"""
    assert int(python(code)) >= 0


def test_a_users_choice_of_runtimes_is_reported_and_no_finding(python: Callable[..., str]) -> None:
    code = """
from netcl_market import doctor
made = doctor.collect()
assert made['vendors_status'] == 'user' and not made['opencl_usable'], made
assert 'OCL_ICD_VENDORS' in made['vendors_reason']
assert not [one for one in made['findings'] if one.startswith('runtime')], made
assert made['opencl_problem'], made
"""
    python(code, OCL_ICD_VENDORS="/nowhere/at/all")


def test_ctrl_c_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(devices, "show_devices", interrupted)
    result = run("devices")
    assert result.exit_code == 130 and "netcl: interrupted" in result.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "netcl_core.cli.start", "plugins", "list", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert "Traceback" not in child.stderr.read()


# -- the texts of help -----------------------------------------------------------------


def commands(group: click.Group, path: str = "netcl") -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"{path} {name}", command
            if isinstance(command, click.Group):
                yield from commands(command, f"{path} {name}")


def all_commands() -> dict[str, click.Command]:
    found = dict(commands(main.netcl))
    for path, each in main.plugin_commands().items():
        found[f"netcl {path}"] = each
    return found


def test_the_shell_completes_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for words, wanted in (
        ("plugins new x --kind am", "amp-policy"),
        ("plugins why log_softm", "log_softmax"),
        ("plugins disable losse", "losses"),
    ):
        monkeypatch.setenv("_NETCL_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", f"netcl {words}")
        monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
        result = CliRunner().invoke(main.netcl, prog_name="netcl")
        assert f"plain,{wanted}" in result.stdout.splitlines(), words


def test_every_command_gives_json_and_help_that_fits() -> None:
    """A list of commands cuts no sentence, and every option says what it is for."""
    for path, command in all_commands().items():
        assert not command.get_short_help_str(65).endswith("..."), path
        if not isinstance(command, click.Group):
            options = [each for each in command.params if isinstance(each, click.Option)]
            assert "--json" in {name for each in options for name in each.opts}, path
            assert [each.name for each in options if not each.help] == [], path
        text = command.get_help(click.Context(command, info_name=path, terminal_width=80))
        assert max(map(len, text.splitlines())) <= 80, path
