"""netcl plugins check: targets, what is printed, the record in JSON and in a file, exit codes."""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from broken import install_broken
from click.testing import CliRunner, Result
from faulty import FAULTY, FILES, NAME, PACKAGE, Faulty
from netcl_plugin_kit.check import checking as check
from netcl_plugin_kit.check import targets
from netcl_plugin_kit.packages import building
from netcl_plugin_kit.packages.wheel_archive import digest_of
from netcl_plugin_kit.testing.records import CheckRecord, from_json
from terminal import on_terminal, progress_on_terminal

import netcl_core as nc
from netcl_core.cli import main

#: They start processes.
pytestmark = pytest.mark.turns(2)

SOUND = Faulty("", "", "")
PYPROJECT = f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{NAME}"
version = "1.0"
license = "MIT"
requires-python = ">=3.11"
dependencies = ["netcl-core>=0.1,<0.2"]

[project.entry-points."netcl_core.plugins"]
sound = "{PACKAGE}:plugin"

[project.entry-points."netcl_core.manifest"]
sound = "{PACKAGE}:netcl_plugin.toml"

[tool.hatch.build.targets.wheel]
packages = ["src/{PACKAGE}"]
"""


def run(*arguments: Any, level: str = "static") -> Result:
    words = ["plugins", "check", *map(str, arguments), *(["--level", level] if level else [])]
    return CliRunner().invoke(main.netcl, words)


def project(folder: Path, pyproject: str = PYPROJECT) -> Path:
    """The sound plugin as a project."""
    for name, text in FILES.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    (folder / "LICENSE").write_text("MIT", encoding="utf-8")
    return folder


# -- what is printed -------------------------------------------------------------------


def test_a_sound_wheel(tmp_path: Path) -> None:
    result = run(SOUND.wheel(tmp_path))
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.startswith(f"{NAME} 1.0: 13 checks passed, 0 failed, ")
    assert len(result.stdout.splitlines()) == 1


def test_a_finding_with_its_remedy(tmp_path: Path) -> None:
    result = run(FAULTY["unlisted_op"].wheel(tmp_path), "--only", "registration")
    assert result.exit_code == 1
    header, row, *others = result.stdout.splitlines()
    assert header.split() == ["op", "check", "reason", "remedy"]
    assert row.split()[:3] == ["odd", "registration", "NC304:"]
    assert 'kind = "primitive"' in others  # the whole row, to be copied
    assert others[-1].startswith(f"{NAME} 1.0: 1 checks passed, 1 failed, ")


def test_what_was_skipped_has_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_broken(tmp_path, "raising")
    monkeypatch.syspath_prepend(str(tmp_path))
    result = run("raising")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "skipped: templates: the plugin does not load" in lines
    assert any(line.startswith("note: It comes without a licence file") for line in lines)
    assert "3 skipped (the plugin does not load)" in lines[-1]
    assert "load  " in result.stdout and "NP207: the plugin 'raising'" in result.stdout


def test_on_a_terminal(tmp_path: Path) -> None:
    """The table is rich, and what progress there is stays on stderr, out of the JSON."""
    wheel = FAULTY["no_licence"].wheel(tmp_path)
    words = ["plugins", "check", str(wheel), "--level", "static"]
    code, shown = on_terminal(words, tmp_path / "errors")
    assert code == 1 and b"NC201" in shown and b"1 failed" in shown
    assert (tmp_path / "errors").read_bytes() == b""  # no terminal, no bar
    code, bar = progress_on_terminal([*words, "--json"], tmp_path / "record.json")
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    assert code == 1 and record["plugin"] == NAME
    assert b"\x1b[" in bar  # it moved the cursor


# -- the record ------------------------------------------------------------------------


def test_the_record_on_stdout_and_in_a_file(tmp_path: Path) -> None:
    wheel, out = FAULTY["no_licence"].wheel(tmp_path), tmp_path / "record.json"
    result = run(wheel, "--json", "--out", out, "--only", "licence", "--only", "metadata")
    assert result.exit_code == 1
    data = json.loads(result.stdout)
    assert json.loads(out.read_text(encoding="utf-8")) == data
    record = from_json(data)
    assert record.state == "fail" and record.wheel_sha256 == digest_of(wheel)
    assert {each.check for each in record.outcomes} == {"licence", "metadata"}
    again = run(wheel, "--out", out)
    assert again.exit_code == 2 and "the file is there already" in again.stderr
    assert json.loads(out.read_text(encoding="utf-8")) == data


def test_every_installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_broken(tmp_path, "exiting")
    install_broken(tmp_path, "syntax")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [name for name in targets.installed() if name.endswith(("exiting", "syntax"))]
    monkeypatch.setattr(targets, "installed", lambda: names)
    result = run("--json", "--only", "load")
    assert result.exit_code == 1
    found = [from_json(data) for data in json.loads(result.stdout)]
    assert [each.plugin for each in found] == ["netcl-plugin-exiting", "netcl-plugin-syntax"]
    monkeypatch.setattr(targets, "installed", list)
    assert json.loads(run("--json").stdout) == [] and run("--json").exit_code == 0
    assert "No plugin is installed" in run().stdout


def test_side_by_side(tmp_path: Path) -> None:
    """The records are those of one at a time; what measures time runs when all else is done."""
    first, second = (tmp_path / name for name in ("first", "second"))
    wheels = []
    for folder, faulty in ((first, SOUND), (second, FAULTY["unlisted_op"])):
        folder.mkdir()
        wheels.append(faulty.wheel(folder).rename(folder / f"{folder.name}-1.0-py3-none-any.whl"))
    checks = ("manifest", "registration", "roofline")
    words = [*wheels, *(f"--only={each}" for each in checks)]
    result = run(*words, "--jobs=2", "--out", tmp_path, level="full")
    assert result.exit_code == 1 and "3 checks passed" not in result.stdout, result.output
    for wheel in wheels:
        text = (tmp_path / f"{wheel.name}.json").read_text(encoding="utf-8")
        beside = from_json(json.loads(text))
        alone = check.check(str(wheel), "full", only=checks)
        assert _untimed(beside) == _untimed(alone)
        assert bool(beside.roofline) == nc.default_device().has_kernels
    again = run(*words, "--jobs=2", "--out", tmp_path, level="full")
    assert again.exit_code == 2 and "the file is there already" in again.stderr


def _untimed(record: CheckRecord) -> CheckRecord:
    """A record without what is measured anew each time."""
    outcomes = tuple(replace(each, seconds=0, reason="") for each in record.outcomes)
    speeds = tuple(
        replace(each, fraction=0, reference=0, elements=0, shapes="", seed=0)
        for each in record.roofline
    )
    return replace(record, date="", seconds=0, outcomes=outcomes, roofline=speeds)


def test_a_file_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    result = run("netcl-plugin-of-nobody", "--out", tmp_path / "missing" / "record.json")
    assert result.exit_code == 2 and "is no folder that can be written to" in result.stderr


# -- levels ----------------------------------------------------------------------------


def test_the_level_run(tmp_path: Path) -> None:
    """It is the default, and holds the static level, once."""
    result = run(SOUND.wheel(tmp_path), "--device", "numpy", "--json", level="")
    record = from_json(json.loads(result.stdout))
    assert result.exit_code == 0, [each.reason for each in record.outcomes]
    assert record.level == "run" and [each.id for each in record.devices] == ["numpy"]
    assert {"wheel", "registration", "values", "gradient", "threads"} <= {
        each.check for each in record.outcomes
    }
    assert len([each for each in record.outcomes if each.check == "derivative"]) == 1
    assert {each.direction for each in record.kernels} == {"forward", "backward"}


def test_a_wrong_gradient_is_found_in_a_run(tmp_path: Path) -> None:
    wheel = FAULTY["wrong_gradient"].wheel(tmp_path)
    result = run(wheel, "--only", "gradient", "--device", "numpy", "--json", level="")
    record = from_json(json.loads(result.stdout))
    assert result.exit_code == 1 and record.level == "run" and record.kernels == ()
    assert {(each.op, each.check) for each in record.outcomes} == {("sound", "gradient")}


def test_the_level_full(tmp_path: Path) -> None:
    result = run(SOUND.wheel(tmp_path), "--only", "mutants", "--device", "numpy", level="")
    assert result.exit_code == 0, result.output
    first, *others, last = result.stdout.splitlines()
    assert first.startswith("mutants: ") and " seeded faults caught" in first
    assert all(line.startswith("mutants: ") for line in others)  # the missed ones, and notes
    assert last.startswith(f"{NAME} 1.0: 1 checks passed, 0 failed, ")
    assert check.level_for(["sanitizer"]) == "full"


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    result = run(SOUND.wheel(tmp_path), "--device", "opencl:99", level="run")
    assert result.exit_code == 3 and "opencl:99" in result.stderr and result.stdout == ""


def test_failures_are_told_as_they_come(tmp_path: Path) -> None:
    """One line per cause, before the table."""
    wheel = FAULTY["wrong_gradient"].wheel(tmp_path)
    result = run(wheel, "--only", "derivative", "--only", "gradient", level="run")
    first, second, *_ = result.stdout.splitlines()
    assert first.startswith("derivative: NC501: ") and " -> Correct " in first
    assert second.startswith("gradient: ")


def test_silence_ends_a_check(tmp_path: Path) -> None:
    wheel = FAULTY["hanging"].wheel(tmp_path)
    result = run(wheel, "--timeout", "4", "--json")
    assert result.exit_code == 1 and "nothing was heard of it for 4 s" in result.stdout
    assert run(wheel, "--timeout", "0").exit_code == 2


def test_full_needs_the_simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is done; what needs none can be asked for by name."""
    monkeypatch.setattr(check, "command", lambda: None)
    wheel = SOUND.wheel(tmp_path)
    result = run(wheel, level="full")
    assert result.exit_code == 3 and "netcl-plugin-kit[check]" in result.stderr
    record = check.check(str(wheel), "full", ["numpy"], ["roofline", "manifest"])
    assert record.parts == ("manifest",)  # NumPy has no kernels, so that nothing was measured


def test_the_lowest_level_that_has_the_checks() -> None:
    assert check.level_for(["manifest", "derivative"]) == "static"
    assert check.level_for(["manifest", "values"]) == "run"
    assert check.level_for([]) == "run"


# -- targets ---------------------------------------------------------------------------


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_broken(tmp_path / "site", "syntax")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "syntax").mkdir()
    monkeypatch.chdir(tmp_path)
    for word in ("syntax", "netcl_plugin.syntax", "NETCL-plugin-syntax"):
        found = targets.locate(word, tmp_path)
        assert (found.name, found.packed) == ("netcl-plugin-syntax", None)
    result = run("netcl-plugin-sintax")
    assert result.exit_code == 2 and "Did you mean netcl-plugin-syntax?" in result.stderr
    result = run("./syntax")  # a path, although a plugin is called so
    assert result.exit_code == 2 and "no usable pyproject.toml" in result.stderr


def test_no_such_target(tmp_path: Path) -> None:
    result = run(tmp_path / "nowhere.whl")
    assert result.exit_code == 2 and "it is not there; expected an installed" in result.stderr
    (tmp_path / "text.whl").write_text("no zip")
    result = run(tmp_path / "text.whl")
    assert result.exit_code == 2 and "it is no wheel" in result.stderr
    for name, offset, values in (("corrupt", 30 + len("x"), b"\xff" * 8), ("locked", 6, b"\1\0")):
        path = tmp_path / f"{name}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x", "text" * 99)
        data = bytearray(path.read_bytes())
        data[offset : offset + len(values)] = values
        if name == "locked":  # the flag stands in the directory, too
            place = data.index(b"PK\1\2") + 8
            data[place : place + 2] = values
        path.write_bytes(data)
        result = run(path)
        assert result.exit_code == 2 and "it is no wheel" in result.stderr
    shutil.make_archive(str(tmp_path / "other"), "zip", Path(__file__).parent)
    (tmp_path / "other.zip").rename(tmp_path / "other.whl")
    result = run(tmp_path / "other.whl")
    assert result.exit_code == 2 and "it has 0 folders .dist-info" in result.stderr


def test_wrong_usage() -> None:
    result = run("--only", "speed")
    assert result.exit_code == 2
    assert "'speed' is no check of the level 'static'; expected one of wheel, " in result.stderr
    result = run("--device", "numpy", "--level", "static")
    assert result.exit_code == 2 and "which runs nothing" in result.stderr
    assert run(level="most").exit_code == 2


# -- projects --------------------------------------------------------------------------


@pytest.mark.packaging
def test_a_project(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    folder = project(tmp_path / "sound")
    before = sorted(path.name for path in folder.iterdir())
    result = run(folder, "--json")
    record = from_json(json.loads(result.stdout))
    assert result.exit_code == 0, [each.reason for each in record.outcomes]
    assert (record.plugin, record.version, record.wheel_sha256) == (NAME, "1.0", "")
    assert sorted(path.name for path in folder.iterdir()) == before
    left_out = PYPROJECT + 'exclude = ["*.j2"]\n'
    result = run(project(folder, left_out), "--only", "wheel", "--json")
    assert result.exit_code == 1
    reasons = [each.reason for each in from_json(json.loads(result.stdout)).outcomes]
    wanted = f"the wheel does not hold {PACKAGE}/templates/sound.cl.j2"
    assert any(wanted in reason for reason in reasons), reasons
    result = run(project(folder, PYPROJECT.replace("version =", "verzion =")))
    assert result.exit_code == 1 and "NC109: " in result.stdout


BACKEND = """
import pathlib, zipfile

def build_wheel(folder, settings=None, metadata=None):
    name, info = "netcl_plugin_sound-1.0-py3-none-any.whl", "netcl_plugin_sound-1.0.dist-info"
    pathlib.Path("left.txt").write_text("by the backend")
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as archive:
        for path in filter(pathlib.Path.is_file, pathlib.Path().rglob("*")):
            archive.write(path)
        fields = "Metadata-Version: 2.1\\nName: netcl-plugin-sound\\nVersion: 1.0\\n"
        archive.writestr(info + "/METADATA", fields)
        archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\n")
        archive.writestr(info + "/RECORD", "")
    return name
"""


def test_an_earlier_build_hides_nothing_and_none_is_left(tmp_path: Path) -> None:
    """The backend works in a copy, of which nothing is taken that is no source."""
    own = 'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    folder = project(tmp_path / "sound", f"[build-system]\n{own}")
    for name in ("build/lib/old.py", "x.egg-info/SOURCES.txt", "env/pyvenv.cfg", ".git/HEAD",
                 "src/build/new.py"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("")
    (folder / "backend.py").write_text(BACKEND)
    before = sorted(folder.rglob("*"))
    (tmp_path / "wheel").mkdir()
    wheel, said = building.build_wheel(folder, tmp_path / "wheel")
    assert wheel is not None, said
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"left.txt", "backend.py", ".git/HEAD", "src/build/new.py"} <= names
    assert not [name for name in names if name.startswith(("build", "x.egg-info", "env"))]
    assert sorted(folder.rglob("*")) == before


# -- what the environment lacks --------------------------------------------------------


def test_tools_that_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = PYPROJECT.replace("hatchling.build", "no_such_backend.build")
    result = run(project(tmp_path / "other", other))
    assert result.exit_code == 3
    assert "'no_such_backend.build' is not installed" in result.stderr
    assert "pip install no_such_backend" in result.stderr
    monkeypatch.setattr(building.importlib.util, "find_spec", lambda name: None)
    result = run(project(tmp_path / "pip"))
    assert result.exit_code == 3 and "pip, which builds a project, is missing" in result.stderr


def test_a_missing_extra_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where jsonschema cannot be imported, nothing is said about the manifest."""
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "jsonschema.py").write_text("raise ImportError('blocked')")
    monkeypatch.setattr(sys, "path", [str(blocked), *sys.path])
    result = run(SOUND.wheel(tmp_path), "--json")
    assert result.exit_code == 3 and result.stdout == ""
    assert "jsonschema is not installed" in result.stderr
    assert "pip install 'netcl-plugin-kit[check]'" in result.stderr
