"""New projects and the example plugins: tidy, typed, and right, as they stand in the checkout."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import checkouts
import pytest
from netcl_plugin_workbench.new.names import Names
from netcl_plugin_workbench.new.project import create

from netcl_core.plugins.kinds import SCAFFOLDS

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.parent for path in ROOT.glob("plugins/examples/*/pyproject.toml"))
#: The repository's own, beyond what the projects ask for.
RULES = "E,F,W,I,B,UP,SIM,RUF,C4,PIE,PT,RET,PTH,N"
_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def made(kind: str, name: str, folder: Path) -> Path:
    """A new project; the op's name is as long as the plugin's."""
    package = f"netcl_plugin_{name.replace('-', '_')}"
    names = Names(name, f"netcl-plugin-{name}", package, name.replace("-", "_"))
    project = folder / names.distribution
    create(project, SCAFFOLDS[kind], names)
    return project


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A new project of each kind, and the examples."""
    folder = tmp_path_factory.mktemp("new")
    return [*(made(kind, f"a-{kind}", folder) for kind in SCAFFOLDS), *EXAMPLES]


@pytest.fixture(scope="module")
def path(projects: Sequence[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH on which all of them are installed."""
    site = tmp_path_factory.mktemp("site")
    return os.pathsep.join(checkouts.show(project, site) for project in projects)


@pytest.mark.parametrize("kind", SCAFFOLDS)
@pytest.mark.parametrize("name", ["x", "as-long-as-a-name-can-be"])
def test_new_projects_are_tidy(kind: str, name: str, tmp_path: Path) -> None:
    project = made(kind, name, tmp_path)
    done = checkouts.call(["ruff", "check", "--no-cache", "--extend-select", RULES], project, "")
    assert done.returncode == 0, done.stdout
    if name == "x":  # how lines are broken depends on the name
        done = checkouts.call(["ruff", "format", "--no-cache", "--check"], project, "")
        assert done.returncode == 0, done.stdout


def test_they_are_typed(projects: Sequence[Path], tmp_path: Path) -> None:
    folders = [str(project / "src") for project in projects]
    cache = str(ROOT / ".mypy_cache")  # the one that `make lint` fills
    done = checkouts.call(["mypy", "--strict", "--cache-dir", cache, *folders], tmp_path, "")
    assert done.returncode == 0, done.stdout


def test_they_are_found(projects: Sequence[Path], path: str) -> None:
    done = checkouts.call(["netcl_core.cli.main", "plugins", "list", "--json"], ROOT, path)
    states = {row["distribution"]: row for row in json.loads(done.stdout)["plugins"]}
    for project in projects:
        assert states[project.name]["state"] == "found", states[project.name]
        assert states[project.name]["manifest"] == (project.name != "netcl-plugin-swiglu")


@pytest.mark.parametrize(
    ("name", "brings", "shown"),
    [
        ("a_pattern", "1 pattern", "add(mul(x, scale), residual)"),
        ("a_amp_policy", "1 amp_policy", "float16; allow matmul"),
        ("softmax", "1 implementation", "a_implementation"),
    ],
)
def test_what_is_no_op_is_listed_and_explained(
    name: str, brings: str, shown: str, path: str
) -> None:
    listed = checkouts.call(["netcl_core.cli.main", "plugins", "list"], ROOT, path)
    assert brings in " ".join(listed.stdout.split())
    said = checkouts.call(["netcl_core.cli.main", "plugins", "why", name, "--json"], ROOT, path)
    assert said.returncode == 0, said.stderr
    assert any(shown in each["label"] for each in json.loads(said.stdout)["candidates"])


def test_their_tests_pass(projects: Sequence[Path], path: str) -> None:
    tests = [str(project / "tests") for project in projects]
    command = ["pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *tests]
    done = checkouts.call(command, ROOT, path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = done.stdout.splitlines()[-1]
    assert int(passed.split()[0]) > 40 and "failed" not in passed


@pytest.mark.packaging  # the check builds a wheel
@pytest.mark.parametrize("kind", SCAFFOLDS)
def test_a_new_project_passes_its_own_check(kind: str, tmp_path: Path) -> None:
    project = made(kind, f"a-{kind}", tmp_path)
    command = ["netcl_core.cli.main", "plugins", "check", ".", "--level", "full", "--json"]
    done = checkouts.call(command, project, "")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    record = json.loads(done.stdout)
    assert (record["state"], record["level"]) == ("pass", "full")
    assert {each["state"] for each in record["outcomes"]} <= {"passed", "skipped"}
    if SCAFFOLDS[kind].is_op:
        assert {each["op"] for each in record["mutants"] if each["caught"]} >= {f"a_{kind}"}
    else:
        wanted = {"implementation": "softmax"}.get(kind, f"a_{kind}".replace("-", "_"))
        passed = {each["op"] for each in record["outcomes"] if each["check"] == "registration"}
        assert passed == {wanted}


def test_the_code_of_their_readmes_runs(
    projects: Sequence[Path], path: str, tmp_path: Path
) -> None:
    code = [
        block
        for project in projects
        for block in _CODE.findall((project / "README.md").read_text(encoding="utf-8"))
    ]
    assert len(code) == len(projects)
    (tmp_path / "of_readmes.py").write_text("\n".join(code), encoding="utf-8")
    done = checkouts.call(["of_readmes"], tmp_path, path)
    assert done.returncode == 0, done.stderr
