"""The example plugins as others get them: built, installed in a clean environment, checked."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import ROOT, Environment, build, run

EXAMPLES = sorted(path.parent for path in ROOT.glob("plugins/examples/*/pyproject.toml"))
pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def shelf(core_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of the examples and of all that they require."""
    folder = tmp_path_factory.mktemp("shelf")
    shutil.copy(core_wheel, folder)
    for name in ("netcl-plugin-elementwise", "netcl-plugin-tensor", "netcl-plugin-workbench"):
        build(ROOT / "plugins" / name, folder, "wheel")
    for project in EXAMPLES:
        build(project, folder, "wheel")
    return folder


@pytest.mark.parametrize("project", EXAMPLES, ids=lambda path: path.name)
def test_an_example_passes_its_check(
    project: Path, shelf: Path, new_environment: Callable[..., Environment]
) -> None:
    clean = new_environment()
    clean.install(f"{project.name}[dev]", links=shelf)
    command = [clean.folder / "bin" / "netcl", "plugins", "check", project.name, "--level", "run"]
    done = run([*command, "--json"], clean.work, **clean.variables())
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    record = json.loads(done.stdout)
    assert record["state"] == "pass" and record["level"] == "run"
    checked = {(each["check"], each["op"]) for each in record["outcomes"]}
    op = project.name.removeprefix("netcl-plugin-").replace("-", "_")
    assert {("values", op), ("gradient", op)} <= checked
