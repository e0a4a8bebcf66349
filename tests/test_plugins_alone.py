"""Each plugin beside the core in a clean environment: it loads, and its tests run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import LISTED, Environment, projects, run, succeed

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = projects()[1:]
pytestmark = pytest.mark.packaging


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(["--first"], id="a-test-of-each-file"),
        pytest.param(["--nightly"], marks=pytest.mark.nightly, id="all-tests"),
    ],
)
@pytest.mark.parametrize("project", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_beside_the_core(
    shelf: Path,
    new_environment: Callable[..., Environment],
    project: Path,
    chosen: list[str],
) -> None:
    """It installs with what it declares alone, loads, and its own tests find what they need."""
    clean = new_environment()
    clean.install(project.name, links=shelf)
    states = {name: (state, reason) for name, state, reason in json.loads(clean.execute(LISTED))}
    assert states[project.name] == ("active", "")
    assert {state for state, _ in states.values()} == {"active"}
    tests = project / "tests"
    if not list(tests.rglob("test_*.py")):
        pytest.skip("it has no tests of its own yet")
    clean.install(f"{project.name}[test]", links=shelf)
    if project.name == "netcl-plugin-data":  # by the kit alone, without a test file
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--netcl-plugin", project.name]
        assert "passed" in succeed([clean.python, "-I", *words], clean.work, **clean.variables())
    for folder in (tests, ROOT / "tests" / "support"):  # what tests share lies in the latter
        target = clean.work / "tests" / ("" if folder == tests else "support")
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "conftest.py"):  # pytest's settings, and what all tests share
        shutil.copy(ROOT / name, clean.work)
    command = [clean.python, "-sP", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    command += ["-m", "not packaging", *chosen]
    support = {"PYTHONPATH": str(clean.work / "tests" / "support"), "NETCL_TORCH_TESTS": "1"}
    done = run(command, clean.work, **support, **clean.variables())
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    print(done.stdout.splitlines()[-1])
