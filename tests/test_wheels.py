"""Every package is built, installed in a clean environment, and used there without the checkout."""

from __future__ import annotations

import email
import json
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from environments import LISTED, Environment, build, projects, run, succeed

from netcl_core.cli.main import netcl

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = projects()
pytestmark = pytest.mark.packaging


def contents(wheel: Path) -> dict[str, bytes]:
    """A wheel's files but for RECORD, which lists the others."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        return {name: archive.read(name) for name in names}


# -- what is in the packages ---------------------------------------------------------


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_the_sdist_makes_the_same_wheel(
    built: dict[str, tuple[Path, Path]], tmp_path: Path, project: Path
) -> None:
    wheel, sdist = built[project.name]
    with tarfile.open(sdist) as archive:
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path / "unpacked", **safely)  # Python 3.11.3 knows no filters
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    (again,) = build(unpacked, tmp_path / "again", "wheel")
    assert contents(again) == contents(wheel)


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_a_wheel_holds_its_package_and_templates(
    built: dict[str, tuple[Path, Path]], project: Path
) -> None:
    packed = contents(built[project.name][0])
    package = "netcl_core" if project == ROOT else project.name.replace("-", "_")
    source = ROOT if project == ROOT else project / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / package).rglob("*")
        if path.is_file() and path.suffix in {".py", ".j2", ".json", ".toml", ".typed"}
    }
    if project == ROOT:
        templates = [path for path in (ROOT / "templates").rglob("*") if path.is_file()]
        assert templates
        wanted |= {f"netcl_core/{path.relative_to(ROOT).as_posix()}" for path in templates}
    assert wanted <= packed.keys()
    own = {package} if project == ROOT else {each.name for each in source.iterdir()}
    strangers = [name for name in packed if name.split("/")[0].split("-")[0] not in own]
    assert strangers == []
    files = [name for name in packed if not name.endswith(".j2")]  # a new project's has tests
    assert not [name for name in files if "/tests/" in name or name.endswith(".pyc")]


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_metadata(built: dict[str, tuple[Path, Path]], project: Path) -> None:
    wheel, _ = built[project.name]
    (name,) = (name for name in contents(wheel) if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(contents(wheel)[name])
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Name"] == table["name"]
    assert metadata["Version"] == table["version"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert metadata.get_payload()
    assert not [line for line in metadata.get_all("Requires-Dist") or () if "@" in line]


# -- the core alone ------------------------------------------------------------------

CORE_ALONE = """
import json, sys
import netcl_core as nc
import netcl_core.autograd as ag

checkout = sys.argv[1] if len(sys.argv) > 1 else None
said = {"file": nc.__file__, "devices": [str(device) for device in nc.devices()]}
said["plugins"] = [plugin.name for plugin in nc.plugins.list()]
said["ops"] = dir(ag)
for name, use in {"op": lambda: ag.relu, "space": lambda: nc.nn}.items():
    try:
        use()
    except nc.errors.NetclError as error:
        said[name] = [type(error).__name__, str(error)]
x = nc.tensor([1.0, 2.0], device="numpy")
said["values"] = x.numpy().tolist()
said["astype"] = x.astype("float16").dtype
class Own:
    @nc.hookimpl
    def netcl_register_primitives(self, registry):
        registry.add(ag.AutogradPrimitive(
            "cubed", lambda inputs, attrs: f"{inputs[0]} * {inputs[0]} * {inputs[0]}",
            lambda inputs, grad, attrs, out: [f"{grad} * 3 * {inputs[0]} * {inputs[0]}"], arity=1))
nc.plugins.register(Own(), "own")
x.requires_grad_()
for name, cubed in {"eager": ag.cubed, "compiled": ag.jit_compile(lambda x: ag.cubed(x))}.items():
    (slope,) = ag.grad(cubed(x), x, nc.tensor([1.0, 1.0], device="numpy"))
    said[name] = slope.numpy().tolist()
print(json.dumps(said))
"""


BROUGHT = {
    "graph model.py:f": "netcl-plugin-tools",
    "doctor": "netcl-market",
    "plugins check": "netcl-plugin-kit",
    "plugins list": "netcl-market",
    "matrix run": "netcl-plugin-tools",
}


def test_the_core_alone(shelf: Path, new_environment: Callable[..., Environment]) -> None:
    clean = new_environment()
    clean.install("netcl-core", links=shelf)
    said = json.loads(clean.execute(CORE_ALONE))
    assert str(clean.folder) in said["file"]
    assert said["devices"][-1] == "numpy"
    assert said["plugins"] == []
    assert {"relu", "add", "sum"}.isdisjoint(said["ops"])
    kind, text = said["op"]
    assert kind == "MissingOpError" and "pip install netcl-plugin-elementwise" in text
    kind, text = said["space"]
    assert kind == "MissingNameError" and "pip install netcl-plugin-nn" in text
    assert said["values"] == [1, 2] and said["astype"] == "float16"
    assert said["eager"] == said["compiled"] == [3, 12]

    command = clean.folder / "bin" / "netcl"
    listed = run([command, "devices", "--json"], clean.work, **clean.variables())
    assert listed.returncode == 0, listed.stderr
    assert [one["id"] for one in json.loads(listed.stdout)["devices"]] == said["devices"]
    for words, package in BROUGHT.items():
        missing = run([command, *words.split()], clean.work, **clean.variables())
        assert missing.returncode == 2, missing.stdout
        assert f"Install it with: pip install {package}" in missing.stderr
    clean.install("netcl-market", links=shelf)
    doctor = run([command, "doctor", "--json"], clean.work, **clean.variables())
    assert doctor.returncode == (0 if len(said["devices"]) > 1 else 3), doctor.stdout


# -- a market of our own ---------------------------------------------------------------


def test_a_catalogue_of_ours(
    shelf: Path, tmp_path: Path, new_environment: Callable[..., Environment]
) -> None:
    """It says what the bundled one says, and pip installs a plugin and its core from it."""
    out = tmp_path / "site"
    command = ["catalogue", "build", "--wheels", str(shelf), "--out", str(out), "--json"]
    command += ["--other", "netcl-core"]
    result = CliRunner().invoke(netcl, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["others"] == ["netcl-core"]
    bundled = (ROOT / "netcl_core" / "plugins" / "catalogue.json").read_text(encoding="utf-8")
    made = json.loads((out / "catalogue.json").read_text(encoding="utf-8"))
    assert made == json.loads(bundled)
    clean = new_environment()
    pip = [sys.executable, "-m", "pip", "--python", clean.python, "install", "--index-url"]
    succeed([*pip, f"{out.as_uri()}/simple/", "netcl-plugin-losses"], clean.work)
    states = {name: state for name, state, _ in json.loads(clean.execute(LISTED))}
    assert set(states.values()) == {"active"} and "netcl-plugin-losses" in states


@pytest.mark.parametrize("name", ["elementwise", "tensor", "kit", "tools"])
def test_a_project_of_ours_passes_its_check(name: str) -> None:
    project = str(ROOT / "plugins" / f"netcl-plugin-{name}")
    result = CliRunner().invoke(netcl, ["plugins", "check", project, "--level", "static"])
    assert result.exit_code == 0, result.output
