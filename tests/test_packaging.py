"""The repository keeps its shape: the core has no op, plugins declare what they are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from generate import first_party

import netcl_core

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "netcl_core" / "plugins" / "catalogue.json"
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))
#: They use nothing that came after the core's first release with the hooks as they are.
UNCHANGED = {"netcl-plugin-data"}
SOURCES = [
    path
    for folder in ("netcl_core", "plugins", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def test_no_kernel_stands_in_python() -> None:
    word = "__" + "kernel"
    assert [path for path in SOURCES if word in path.read_text(encoding="utf-8")] == []


def test_the_core_names_no_plugin() -> None:
    """Only the data file catalogue.json knows them. The market is none: the loader asks for it."""
    plugins = [name for name in first_party() if name != "netcl-market"]
    names = [*plugins, *(name.replace("-", "_") for name in plugins)]
    naming = [
        path.name
        for path in (ROOT / "netcl_core").rglob("*.py")
        if any(name in path.read_text(encoding="utf-8") for name in names)
    ]
    assert naming == []


def test_the_core_registers_no_op(python: Callable[..., str]) -> None:
    code = """
import importlib, pkgutil
import netcl_core
from netcl_core.version import VERSION
from netcl_core.plugins.kinds import REGISTERED
from netcl_core.plugins.registry import registry
for module in pkgutil.walk_packages(netcl_core.__path__, "netcl_core."):
    if not module.name.startswith("netcl_plugin_kit.testing"):
        importlib.import_module(module.name)
registry.load()
rows = {kind: registry.rows(kind) for kind in REGISTERED if registry.rows(kind)}
print(rows, registry.op_names())
"""
    assert python(code, NETCL_PLUGINS_AUTOLOAD="0") == "{} []"


def test_versions_agree() -> None:
    assert project(ROOT)["project"]["version"] == netcl_core.__version__


def test_standard_is_every_plugin() -> None:
    standard = project(ROOT)["project"]["optional-dependencies"]["standard"]
    tools = {"netcl-plugin-kit": "netcl-plugin-kit[check]"}
    wanted = [tools.get(name, name) for name in first_party()]
    assert sorted(standard) == sorted(["netcl-core[cpu]", *wanted])


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_declares_itself(folder: Path) -> None:
    table = project(folder)["project"]
    package = table["name"].replace("-", "_")
    assert table["name"] == folder.name
    assert (folder / "src" / package / "__init__.py").is_file()
    assert (folder / table["readme"]).is_file()
    assert table["license"] == "MIT" and table["requires-python"] == ">=3.11"
    assert table["license-files"] == ["LICENSE"]
    assert (folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    oldest = "0.1.1" if folder.name in UNCHANGED else netcl_core.__version__
    assert f"netcl-core>={oldest},<0.2" in table["dependencies"]
    (name, value), *_ = table["entry-points"]["netcl_core.plugins"].items()
    assert folder.name in {f"netcl-plugin-{name}", "netcl-market"}
    assert value.partition(":")[0].partition(".")[0] == package


def installed_with(folder: Path, extra: str = "") -> set[str]:
    """The plugin, and every plugin that pip brings along with it (and with one of its extras)."""
    needed: set[str] = set()
    waiting = [folder.name]
    while waiting:
        name = waiting.pop()
        needed.add(name)
        table = project(ROOT / "plugins" / name)["project"]
        lines = list(table["dependencies"])
        if name == folder.name and extra:
            lines += table["optional-dependencies"][extra]
        found = {re.split(r"[<>=\[; ]", line)[0] for line in lines}
        waiting += (found & set(first_party())) - needed
    return needed


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda path: path.name)
def test_a_plugin_declares_what_it_imports(folder: Path) -> None:
    """Another plugin that the sources name is a dependency (or one of a dependency's).

    Only the kit asks for cases and scenarios, and so is there when their modules are imported.
    """
    pattern = re.compile(r"^\s*(?:from|import) (netcl_plugin_\w+)", re.MULTILINE)
    for path in (folder / "src").rglob("*.py"):
        asked = re.search(r"(conformance|cases|scenarios)$", path.stem) is not None
        needed = installed_with(folder) | ({"netcl-plugin-kit"} if asked else set())
        for package in pattern.findall(path.read_text(encoding="utf-8")):
            assert package.replace("_", "-") in needed, path


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda path: path.name)
def test_its_tests_import_what_is_installed_with_it(folder: Path) -> None:
    """They run beside the plugin alone: what else they use comes after an importorskip."""
    provider = {
        name: package
        for package, row in json.loads(CATALOGUE.read_text(encoding="utf-8"))["packages"].items()
        for name in row["provides"].get("namespace", ())
    }
    plugins = re.compile(r"^(?:from|import) (netcl_plugin_\w+)", re.MULTILINE)
    names = re.compile(r"^from netcl_core import (.*)", re.MULTILINE)
    skipped = re.compile(r"^pytest\.importorskip\(\"(netcl_plugin_\w+)", re.MULTILINE)
    extra = "test" if "test" in project(folder)["project"].get("optional-dependencies", {}) else ""
    there = installed_with(folder, extra)
    for path in (folder / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        asked = {package.replace("_", "-") for package in plugins.findall(text)} & set(
            first_party()
        )
        for line in names.findall(text):
            asked |= {provider[name] for name in re.findall(r"\w+", line) if name in provider}
        asked -= {package.replace("_", "-") for package in skipped.findall(text)}
        assert asked <= there, f"{path} imports {sorted(asked - there)}"


def test_every_package_is_typed_and_checked() -> None:
    """`py.typed` promises annotations to those who import a package; mypy holds the promise."""
    packages = [ROOT / "netcl_core", *(each for folder in PLUGINS for each in folder.glob("src/*"))]
    assert [each.name for each in packages if not (each / "py.typed").is_file()] == []
    checked = project(ROOT)["tool"]["mypy"]["packages"]
    wanted = ["harness", *(each.name for each in packages)]  # that of benchmarks/ is not shipped
    assert sorted(checked) == sorted(wanted)
