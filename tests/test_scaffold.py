"""New projects and the example plugins: tidy, typed, and right, as they stand in the checkout."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import checkouts
import pytest
from distributions import install
from netcl_plugin_kit.check.subject import find
from netcl_plugin_kit.check.unchanged import unchanged
from netcl_plugin_kit.new.names import ProjectNames
from netcl_plugin_kit.new.project import create
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS

#: They start processes.
pytestmark = pytest.mark.turns(2)

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(path.parent for path in ROOT.glob("plugins/examples/*/pyproject.toml"))
#: The repository's own, beyond what the projects ask for.
RULES = "E,F,W,I,B,UP,SIM,RUF,C4,PIE,PT,RET,PTH,N"
_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


#: Every KIND, with and without Python where it can be without.
NEW = [
    (name, data) for name, kind in SCAFFOLDS.items() for data in (False, True)[: 1 + kind.defined]
]
IDS = [f"{name}-data" if data else name for name, data in NEW]


def made(kind: str, name: str, folder: Path, data: bool = False, operator: str = "softmax") -> Path:
    """A new project; the op's name is as long as the plugin's."""
    package = f"netcl_plugin_{name.replace('-', '_')}"
    names = ProjectNames(name, f"netcl-plugin-{name}", package, name.replace("-", "_"), operator)
    project = folder / names.distribution
    create(project, SCAFFOLDS[kind], names, data_only=data)
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


@pytest.mark.parametrize(("kind", "data"), NEW, ids=IDS)
@pytest.mark.parametrize("name", ["x", "as-long-as-a-name-can-be"])
def test_new_projects_are_tidy(kind: str, data: bool, name: str, tmp_path: Path) -> None:
    project = made(kind, name, tmp_path, data)
    done = checkouts.call(["ruff", "check", "--no-cache", "--extend-select", RULES], project, "")
    assert done.returncode == 0, done.stdout
    if name == "x":  # how lines are broken depends on the name
        done = checkouts.call(["ruff", "format", "--no-cache", "--check"], project, "")
        assert done.returncode == 0, done.stdout


def test_they_are_typed(projects: Sequence[Path], tmp_path: Path) -> None:
    folders = [str(project / "src") for project in projects if any(project.glob("src/*/*.py"))]
    cache = str(ROOT / ".mypy_cache")  # the one that `make lint` fills
    done = checkouts.call(["mypy", "--strict", "--cache-dir", cache, *folders], tmp_path, "")
    assert done.returncode == 0, done.stdout


def test_they_are_found(projects: Sequence[Path], path: str) -> None:
    done = checkouts.call(["netcl_core.cli.main", "plugins", "list", "--json"], ROOT, path)
    states = {row["distribution"]: row for row in json.loads(done.stdout)["plugins"]}
    for project in projects:
        assert states[project.name]["state"] == "found", states[project.name]
        short = project.name in {"netcl-plugin-swiglu", "netcl-plugin-a-short"}
        assert states[project.name]["manifest"] == (not short)


@pytest.mark.parametrize(
    ("name", "brings", "shown"),
    [
        ("a_pattern", "1 pattern", "softmax(mul(x, scale), dim=dim)"),
        ("a_amp_policy", "1 amp policy", "float16; allow matmul"),
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


@pytest.mark.parametrize(
    ("every", "more_than"), [(3, 13), pytest.param(1, 32, marks=pytest.mark.nightly)]
)
def test_their_tests_pass(projects: Sequence[Path], path: str, every: int, more_than: int) -> None:
    tests = [str(project / "tests") for project in projects[::every]]
    command = ["pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), *tests]
    done = checkouts.call(command, ROOT, path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = done.stdout.splitlines()[-1]
    assert int(passed.split()[0]) > more_than and "failed" not in passed


@pytest.mark.parametrize(
    ("kind", "operator"),
    [*((kind, "softmax") for kind in SCAFFOLDS), ("implementation", "rms_norm")],
)
def test_what_is_left_as_it_was_written_is_noted(
    kind: str, operator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made(kind, f"a-{kind}", tmp_path, operator=operator)
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = project / "src"
    texts = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in source.rglob("*")
        if path.is_file()
    }
    site = tmp_path / "site"
    info = install(site, project.name, texts, table["entry-points"])
    monkeypatch.syspath_prepend(str(site))

    def describe(author: str, summary: str, url: str, readme: str) -> list[str]:
        fields = [f"Name: {project.name}", "Version: 0.1.0", f"Author: {author}"]
        fields += [f"Summary: {summary}", f"Project-URL: Source, {url}", "", readme]
        (info / "METADATA").write_text("\n".join(fields), encoding="utf-8")
        return list(unchanged(find(project.name)))

    readme = (project / "README.md").read_text(encoding="utf-8")
    author, url = table["authors"][0]["name"], table["urls"]["Source"]
    notes = describe(author, table["description"], url, readme)
    assert [note.split()[0] for note in notes] == ["NC205:"] * 4
    assert "README.md" in notes[3] and f"src/netcl_plugin_a_{kind.replace('-', '_')}/" in notes[3]
    for path in texts:
        with (site / path).open("a", encoding="utf-8") as file:
            file.write("\n")
    assert describe("Ada", "Bends", "https://example.com/bends", "# Bends") == []


#: A policy is tried with every op on every device, which builds for minutes.
CHECKED = [
    pytest.param(*new, id=name, marks=[pytest.mark.nightly] if new[0] == "amp-policy" else [])
    for new, name in zip(NEW, IDS, strict=True)
]


@pytest.mark.packaging  # the check builds a wheel
@pytest.mark.parametrize(("kind", "data"), CHECKED)
def test_a_new_project_passes_its_own_check(kind: str, data: bool, tmp_path: Path) -> None:
    project = made(kind, f"a-{kind}", tmp_path, data)
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
    if kind == "pattern":
        assert {each["op"] for each in record["mutants"] if each["caught"]} == {"a_pattern_rows"}
        checks = {each["check"] for each in record["outcomes"] if each["state"] == "passed"}
        assert {"match", "near misses", "values", "gradient"} <= checks


def test_the_code_of_their_readmes_runs(
    projects: Sequence[Path], path: str, tmp_path: Path
) -> None:
    texts = [(project / "README.md").read_text(encoding="utf-8") for project in projects]
    code = [block for text in texts for block in _CODE.findall(text)]
    assert len(code) == len(projects)
    (tmp_path / "of_readmes.py").write_text("\n".join(code), encoding="utf-8")
    done = checkouts.call(["of_readmes"], tmp_path, path)
    assert done.returncode == 0, done.stderr
    begun = "".join(texts[: len(SCAFFOLDS)])
    shown = re.findall(r"^```text\n(.*?)^```$", begun, re.DOTALL | re.MULTILINE)
    assert len(shown) == 4 and all(block in done.stdout for block in shown), done.stdout
