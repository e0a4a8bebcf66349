"""netcl plugins list, info, why, search: what they print, their exit codes, what they import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import GOOD, install_broken
from click.testing import CliRunner, Result
from distributions import TEMPLATE, install, install_plugin
from environments import ROOT

from netcl_core.cli import main

#: They start processes.
pytestmark = pytest.mark.turns(2)

MANIFEST = """
schema = 1
[plugin]
name = "m_good"
api = [1, 0]
summary = "Adds one to a square"
license = "MIT"
[requires]
optional_extensions = ["cl_khr_fp16"]
[[provides]]
name = "m_op"
kind = "primitive"
dtypes = ["float32"]
differentiable = true
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Installed: a healthy plugin with a manifest and a broken one."""
    folder = tmp_path / "site"
    code = GOOD.format(name="m_op")
    install_plugin(folder, "m_good", code, {"plus.cl.j2": TEMPLATE}, MANIFEST)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, ["plugins", *arguments])


def process(site: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command as the script runs it, without the first-party plugins."""
    path = os.pathsep.join((str(site), str(ROOT)))
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "netcl_core.cli.start", "plugins", *arguments],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


# -- list ------------------------------------------------------------------------------


def test_list(site: Path) -> None:
    result = run("list")
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("m_good ")]
    assert line.split() == [
        "m_good",
        "netcl-plugin-m_good",
        "1.0",
        "code",
        "ready",
        "1",
        "primitive",
    ]
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)["plugins"]}
    assert rows["m_good"]["provides"][0]["name"] == "m_op"
    assert rows["m_good"]["api"] == [1, 0] and rows["m_good"]["summary"] == "Adds one to a square"


def test_list_with_findings(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_broken(site, "other_api")
    result = run("list")
    assert result.exit_code == 1
    assert "NP101: it is written for hook API 2.0" in " ".join(result.stdout.split())
    monkeypatch.setenv("NETCL_PLUGINS", "m_good, m_godo")
    result = run("list")
    assert result.exit_code == 1 and "did you mean m_good?" in result.stderr
    monkeypatch.setenv("NETCL_PLUGINS", "m_good")
    result = run("list")  # what is switched off is no finding
    assert result.exit_code == 0
    assert "NETCL_PLUGINS (plugins) does not name it" in " ".join(result.stdout.split())


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_short_way_says_what_the_long_one_says(site: Path, options: tuple[str, ...]) -> None:
    long = [sys.executable, "-m", "netcl_core.cli.main", "plugins", "list", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT)))}
    said = subprocess.run(long, env=environment, capture_output=True, text=True, check=True)
    assert process(site, "list", *options).stdout == said.stdout
    assert process(site, *options, "list").returncode == 2 if options else True


def test_errors_end_the_short_way_as_the_long_one(site: Path) -> None:
    done = process(site, "list", NETCL_PLUGINS_AUTOLOAD="perhaps")
    assert done.returncode == 3
    assert done.stderr.startswith("netcl: NETCL_PLUGINS_AUTOLOAD: ")


def test_nothing_is_installed(tmp_path: Path) -> None:
    code = f"""
import sys
sys.path[:] = [{str(tmp_path)!r}, {str(ROOT)!r}, *(p for p in sys.path if "site-packages" not in p)]
from netcl_market import finding
finding.distributions = lambda memory: []
from netcl_market import survey
survey.distributions = lambda memory: []
from netcl_market import listing as market
assert market.show_list(False) == 0
"""
    # third-party packages are still needed
    code = code.replace(' if "site-packages" not in p', "")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "No plugin is installed" in said.stdout


HEAVY = ("pyopencl", "jinja2", "pluggy", "numpy", "click", "rich", "packaging", "m_good_package")
IMPORTS = """
import sys
sys.argv = ["netcl", "plugins", *{arguments!r}]
from netcl_core.cli import start
try:
    start.main()
except SystemExit as ended:
    assert not ended.code, ended.code
print("imported:", *sorted({heavy!r} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["list"], set()),
        (["list", "--json"], set()),
        (["info", "m_good"], {"click"}),
        (["info", "m_good", "--json", "--traceback"], {"click"}),
    ],
)
def test_list_and_info_import_nothing_heavy(
    site: Path, python: Callable[..., str], arguments: list[str], allowed: set[str]
) -> None:
    code = IMPORTS.format(arguments=arguments, heavy=set(HEAVY))
    said = python(code, PYTHONPATH=str(site), NETCL_PLUGINS="m_good")
    assert "m_good" in said
    assert set(said.splitlines()[-1].split()[1:]) <= allowed


# -- info ------------------------------------------------------------------------------


def test_info(site: Path) -> None:
    for name in ("m_good", "netcl-plugin-m_good", "netcl_plugin.m-good"):
        result = run("info", name)
        assert result.exit_code == 0
        for text in ("m_op", "Adds one to a square", "1.0", "cl_khr_fp16", "float32", "ready"):
            assert text in result.stdout
    assert "none, so that" not in result.stdout


def test_info_shows_why_and_where_it_failed(site: Path, python: Callable[..., str]) -> None:
    """The traceback of the process that failed, shown by one that imports nothing."""
    install_broken(site, "raising")
    code = "import warnings; warnings.simplefilter('ignore')\nimport netcl_core as nc\n"
    python(code + "nc.plugins.list()", PYTHONPATH=str(site))
    result = run("info", "raising")
    assert result.exit_code == 1
    assert "NP207" in result.stdout and "out of order" in result.stdout
    assert "Traceback" not in result.stdout
    result = run("info", "raising", "--traceback")
    assert "Traceback" in result.stdout and "raising_package" in result.stdout
    assert "while loading the plugin 'raising' of netcl-plugin-raising" in result.stdout
    (data,) = json.loads(run("info", "raising", "--traceback", "--json").stdout)
    assert data["code"] == "NP207" and "Traceback" in data["traceback"] and data["remedy"]


def test_info_of_nobody(site: Path) -> None:
    result = run("info", "m_godo")
    assert result.exit_code == 2 and "did you mean m_good?" in result.stderr
    assert run("info").exit_code == 2


# -- why and search --------------------------------------------------------------------


def test_why() -> None:
    result = run("why", "relu", "--device", "numpy", "--dtype", "float64")
    assert result.exit_code == 0, result.output
    assert "relu in float64 on <Device numpy: NumPy>" in result.stdout
    assert "primitive relu" in result.stdout and "rule: the only provider" in result.stdout
    data = json.loads(run("why", "matmul", "--device", "numpy", "--json").stdout)
    assert [one["label"] for one in data["candidates"]] == ["operator matmul", "reference in NumPy"]
    assert len(data["rules"]) == 2


def test_why_drops_a_device_below_the_language_that_a_manifest_requires(
    tmp_path: Path, python: Callable[..., str]
) -> None:
    """NumPy runs it, no OpenCL device does, and the reason is said."""
    manifest = MANIFEST.replace("optional_extensions", 'opencl = "99.0"\noptional_extensions')
    install_plugin(tmp_path, "m_good", GOOD.format(name="m_op"), {"plus.cl.j2": TEMPLATE}, manifest)
    code = """
import netcl_core as nc
from netcl_plugin_kit.why.decisions import why
for device in nc.devices():
    said = why("m_op", device=device)
    if device.backend == "numpy":
        assert said.decided, said
    else:
        have = "{}.{}".format(*device.opencl_c)
        assert not said.decided
        assert f"dropped: it needs OpenCL C 99.0, {device} has {have}" in str(said), said
"""
    python(code, PYTHONPATH=str(tmp_path), NETCL_PLUGINS="m_good")


def test_why_of_what_is_not_there() -> None:
    result = run("why", "no_such_op", "--device", "numpy")
    assert result.exit_code == 1 and "no installed plugin provides this op" in result.stderr
    assert run("why", "relu", "--dtype", "float12").exit_code == 2
    result = run("why", "relu", "--device", "opencl:77")
    assert result.exit_code == 3 and result.stderr.startswith("netcl: ")


def test_search() -> None:
    result = run("search", "gelu")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split()[:3] == [
        "gelu", "primitive", "netcl-plugin-elementwise",
    ]  # fmt: skip
    rows: list[dict[str, Any]] = json.loads(run("search", "optim", "--json").stdout)
    assert {"name": "optim", "kind": "namespace"}.items() <= rows[0].items()
    assert {"package"} <= {row["kind"] for row in rows}


def test_search_sees_what_is_installed(site: Path) -> None:
    """A plugin that no catalogue has: by its op, its summary, its package; the short road too."""
    points = {"netcl_core.primitives": {"m_short": "m_short:m_short"}}
    install(site, "m-short", {"m_short.py": "m_short = None"}, points)
    for word, expected in (
        ("m_op", ("m_op", "primitive", "netcl-plugin-m-good")),
        ("one to a SQUARE", ("netcl-plugin-m-good", "package", "netcl-plugin-m-good")),
        ("m_short", ("m_short", "primitive", "m-short")),
    ):
        (row,) = json.loads(run("search", word, "--json").stdout)
        assert (row["name"], row["kind"], row["package"]) == expected and row["here"] == "found"
    assert "did you mean m_op?" in run("search", "m_opp").stdout


def test_search_for_nothing() -> None:
    result = run("search", "matmull")
    assert result.exit_code == 1 and "did you mean matmul?" in result.stdout
    assert json.loads(run("search", "qqqq", "--json").stdout) == []
