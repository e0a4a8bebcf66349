"""A small matrix, whole and real: wheels built here, environments without a network, a board."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from environments import build, run
from repacking import repack, with_requirements

ROOT = Path(__file__).resolve().parent.parent
PLUGIN = ROOT / "plugins" / "examples" / "netcl-plugin-swiglu"
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def shelves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of wheels: `cores` (two builds of one version), `plugins`, and `links`."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    base = tmp_path_factory.mktemp("shelves")
    (core,) = build(ROOT, base / "cores", "wheel")
    shutil.copy(core, core.with_name(core.name.replace("-py3-", "-2-py3-")))
    build(PLUGIN, base / "plugins", "wheel")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["check"]
    for name in sorted(with_requirements([*project["dependencies"], *extra])):
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
    command = [*said.split(), "--level", "static", "--runtime", "numpy", "--runtime", "pocl"]
    done = netcl(shelves, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads(done.stdout)["cells"]
    by_runtime: dict[str, list[str]] = {}
    for cell in cells:
        by_runtime.setdefault(cell["runtime"]["name"], []).append(cell["state"])
    assert by_runtime["numpy"] == ["pass", "pass"], cells
    assert by_runtime["pocl"] in (["pass", "pass"], ["unsupported", "unsupported"]), cells
    assert sorted({cell["core_build"] for cell in cells}) == ["", "2"]

    again = json.loads(netcl(shelves, *command).stdout)
    assert again["kept"] == len(cells)

    done = netcl(shelves, "report", "--records", "records", "--out", "board", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (plugin,) = json.loads(done.stdout)["plugins"]
    assert plugin["state"] == "pass"
    record = json.loads(next((shelves / "records").glob("*numpy*")).read_text(encoding="utf-8"))
    assert record["check"]["devices"][0]["id"] == "cpu"
    installed = {name for name in record["packages"] if name.startswith("netcl")}
    assert installed == {"netcl-core", "netcl-plugin-swiglu"}
