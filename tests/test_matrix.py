"""A small matrix, whole and real: wheels built here, environments without a network, a board."""

from __future__ import annotations

import json
import os
import socket
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from environments import build, run
from netcl_market.child_processes import BUBBLEWRAP, held
from repacking import repack, with_requirements

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "plugins" / "examples" / "netcl-plugin-swiglu"
#: They bring the command that a cell runs.
KIT = [
    ROOT / "plugins" / name
    for name in ("netcl-plugin-kit", "netcl-plugin-fusion", "netcl-plugin-patterns", "netcl-market")
]
pytestmark = pytest.mark.packaging
#: A stranger's plugin: it fails with the names of what it could do.
SPY = """
import os, socket
done = []
for name, attempt in {{
    "marker": lambda: open({marker!r}, "w"),
    "itself": lambda: open(__file__, "a"),
    "secret": lambda: os.environ["DEPLOY_TOKEN"],
    "neighbours": lambda: os.listdir({folder!r} + "/cores"),
    "another process": lambda: os.kill({process}, 0),
    "network": lambda: socket.create_connection(("127.0.0.1", {port}), 5),
}}.items():
    try:
        attempt()
    except (OSError, KeyError):
        continue
    done += [name] * (name != "marker")  # where it could, that was memory of its own
raise ImportError(f"{{open('/proc/1/comm').read().strip()}}: {{done}}")
"""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "netcl-plugin-spy"
version = "1.0"
dependencies = ["netcl-core"]
[project.entry-points."netcl_core.plugins"]
spy = "netcl_plugin_spy:plugin"
"""


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of wheels: `cores`, `plugins`, and third-party ones, `links`."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    base = tmp_path_factory.mktemp("shelves")
    build(ROOT, base / "cores", "wheel")
    wanted: set[str] = set()
    for folder in (PLUGIN, *KIT):
        build(folder, base / "plugins", "wheel")
    for folder in (ROOT, *KIT):
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        wanted |= {*project["dependencies"], *project["optional-dependencies"].get("check", ())}
    for name in sorted(with_requirements(wanted)):
        if not name.startswith("netcl"):
            repack(name, base / "links")
    return base


def netcl(base: Path, *arguments: str) -> Any:
    cache = str(base / "cache")
    return run(
        [sys.executable, "-m", "netcl_core.cli.start", "matrix", *arguments],
        base,
        NETCL_CACHE_DIR=cache,
    )


def test_a_small_matrix(shelves: Path) -> None:
    said = "run --cores cores --plugins plugins --records records --find-links links --json"
    command = [*said.split(), "--only", "swiglu", "--level", "run"]
    command += ["--runtime", "numpy", "--runtime", "pocl"]
    done = netcl(shelves, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads(done.stdout)["cells"]
    states = {cell["runtime"]["name"]: cell["state"] for cell in cells}
    assert states["numpy"] == "pass", cells
    assert states["pocl"] in ("pass", "unsupported"), cells  # not every machine has it

    again = json.loads(netcl(shelves, *command).stdout)
    assert again["kept"] == len(cells)

    done = netcl(shelves, "report", "--records", "records", "--out", "board", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (plugin,) = json.loads(done.stdout)["plugins"]
    assert plugin["state"] == "pass"
    record = json.loads(next((shelves / "records").glob("*numpy*")).read_text(encoding="utf-8"))
    assert record["check"]["devices"][0]["id"] == "numpy"
    installed = {name for name in record["packages"] if name.startswith("netcl")}
    assert installed == {"netcl-core", PLUGIN.name, *(each.name for each in KIT)}


@pytest.mark.skipif(held() != BUBBLEWRAP, reason="bubblewrap cannot be used here")
def test_a_cell_is_shut_in(shelves: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its plugin sees is neither the user's folders nor secrets, processes or the network."""
    monkeypatch.setenv("DEPLOY_TOKEN", "a secret")
    package, marker = shelves / "spy" / "netcl_plugin_spy", shelves / "marker"
    package.mkdir(parents=True)
    (package.parent / "pyproject.toml").write_text(PROJECT)
    with socket.create_server(("127.0.0.1", 0)) as server:
        facts = {"marker": str(marker), "folder": str(shelves), "process": os.getpid()}
        code = SPY.format(port=server.getsockname()[1], **facts)
        (package / "__init__.py").write_text(code)
        build(package.parent, shelves / "plugins", "wheel")
        said = "run --cores cores --plugins plugins --records spied --find-links links --json"
        command = [*said.split(), "--only", "spy", "--level", "static", "--runtime", "numpy"]
        assert netcl(shelves, *command).returncode == 1
    (path,) = (shelves / "spied").glob("*.json")
    check = json.loads(path.read_text(encoding="utf-8"))["check"]
    reasons = [outcome["reason"] for outcome in check["outcomes"]]
    assert any("ImportError: bwrap: []" in reason for reason in reasons), reasons
    assert check["held"] == BUBBLEWRAP and not marker.exists()
