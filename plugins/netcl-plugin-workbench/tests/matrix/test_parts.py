"""The parts of a matrix: wheels, what excludes what, child processes, Pythons, runtimes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from netcl_plugin_workbench.matrix import pythons, runtimes
from netcl_plugin_workbench.matrix.fitting import choose
from netcl_plugin_workbench.matrix.plan import shelves, tasks
from netcl_plugin_workbench.matrix.processes import Processes, StoppedError, clean_variables
from netcl_plugin_workbench.matrix.pythons import Interpreter
from netcl_plugin_workbench.matrix.runtimes import RUNTIMES, Presence, libraries, locate
from netcl_plugin_workbench.matrix.wheels import read, shelf
from packaging.requirements import Requirement
from packaging.tags import platform_tags

from netcl_core.errors import PluginError

Write = Callable[..., Path]

# -- wheels --------------------------------------------------------------------------


def test_builds_of_one_version_are_told_apart(shelves_of: tuple[Path, Path]) -> None:
    found = shelves(*shelves_of)
    assert [wheel.label for wheel in found.cores] == ["0.1.0", "0.1.1-1", "0.1.1-2"]
    assert len({wheel.sha256 for wheel in found.cores}) == 3
    (plugin,) = found.plugins
    assert str(plugin) == "netcl-plugin-swish 0.3"
    assert plugin.requires == (Requirement("netcl-core>=0.1.1,<0.2"),)


def test_some_plugins_are_only_there_for_others(
    shelves_of: tuple[Path, Path], make_wheel: Write
) -> None:
    make_wheel(shelves_of[1], "netcl-plugin-base")
    found = shelves(*shelves_of, ["Netcl_Plugin_Swish"])
    assert [wheel.name for wheel in found.plugins] == ["netcl-plugin-base", "netcl-plugin-swish"]
    assert [wheel.name for wheel in found.checked] == ["netcl-plugin-swish"]
    assert shelves(*shelves_of).checked == found.plugins
    with pytest.raises(UsageError, match="is of swosh; expected one of netcl-plugin-base"):
        shelves(*shelves_of, ["swosh"])


def test_a_plugin_may_be_named_as_its_manifest_names_it(
    shelves_of: tuple[Path, Path], make_wheel: Write
) -> None:
    make_wheel(
        shelves_of[1],
        "netcl-plugin-base",
        files={"base/netcl_plugin.toml": '[plugin]\nname = "short"\n'},
        points="[netcl_core.plugins]\nshort = base:plugin\n"
        "[netcl_core.manifest]\nshort = base:netcl_plugin.toml\n",
    )
    for name in ("short", "base"):
        found = shelves(*shelves_of, [name])
        assert [wheel.name for wheel in found.checked] == ["netcl-plugin-base"]


def test_a_manifest_is_read_from_the_wheel(make_wheel: Write, tmp_path: Path) -> None:
    points = "[netcl_core.manifest]\ngpu = netcl_plugin_gpu:netcl_plugin.toml\n"
    manifest = '[plugin]\nname = "gpu"\n[requires]\ndevice_types = ["gpu"]\n'
    files = {"netcl_plugin_gpu/netcl_plugin.toml": manifest}
    path = make_wheel(tmp_path, "netcl-plugin-gpu", files=files, points=points)
    wheel = read(path)
    assert wheel.manifest is not None
    assert wheel.manifest.requires.device_types == ("gpu",)
    assert not wheel.is_plugin  # a manifest alone registers nothing


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken"])
def test_a_broken_wheel_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "netcl_plugin_bad-1.0-py3-none-any.whl"
    path.write_bytes(content)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


DEEP: dict[str, Any] = {
    "points": "[netcl_core.manifest]\nbad = bad:deep.toml\n",
    "files": {"bad/deep.toml": f"x = {'[' * 20_000}"},
}


@pytest.mark.parametrize(
    "content",
    [
        {"points": "x = 1\n"},
        {"points": "[a]\nb = 1\n[a]\n"},
        {"requires": ["!"]},
        {"requires": ["scipy ≥ 1"]},
        {"requires": ["scipy; os_name ~= 'posix'"]},
        {"python": "new"},
        DEEP,
        {**DEEP, "files": {"bad/deep.toml": "schema = 99"}},
    ],
)
def test_a_strange_wheel_is_named(
    make_wheel: Write, tmp_path: Path, content: dict[str, Any]
) -> None:
    make_wheel(tmp_path, "netcl-plugin-bad", **content)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


@pytest.mark.parametrize(
    ("entry", "member", "value"),
    [(8, 6, b"\1"), (10, 8, b"\x63")],  # the flag "encrypted", a compression that is not known
)
def test_a_wheel_that_cannot_be_unpacked_is_named(
    make_wheel: Write, tmp_path: Path, entry: int, member: int, value: bytes
) -> None:
    path = make_wheel(tmp_path, "netcl-plugin-bad")
    data = path.read_bytes()
    for sign, place in ((b"PK\1\2", entry), (b"PK\3\4", member)):
        parts = data.split(sign)
        changed = [each[: place - 4] + value + each[place - 3 :] for each in parts[1:]]
        data = sign.join([parts[0], *changed])
    path.write_bytes(data)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


def test_a_folder_without_wheels_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="there is none; expected a wheel of netcl-core"):
        shelves(tmp_path, tmp_path)


# -- what excludes what --------------------------------------------------------------


def pick(folder: Path, core: str = "0.1.1", python: str = "3.11.7", version: str = "1.0") -> Any:
    wheels = shelf(folder)
    named = {(wheel.name, wheel.version): wheel for wheel in wheels}
    plugin = named["netcl-plugin-a", version]
    return choose(
        named["netcl-core", core], plugin, python, [each for each in wheels if each.is_plugin]
    )


def test_a_core_that_a_plugin_refuses(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.0")
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-core (>=0.1.1)"])
    assert pick(tmp_path).problem == ""
    said = "netcl-plugin-a 1.0 needs netcl-core>=0.1.1; there is 0.1.0"
    assert pick(tmp_path, core="0.1.0").problem == said


@pytest.mark.parametrize(("python", "fits"), [("3.11.7", False), ("3.13.0", True)])
def test_a_python_that_a_wheel_refuses(
    make_wheel: Write, tmp_path: Path, python: str, fits: bool
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", python=">=3.12")
    problem = pick(tmp_path, python=python).problem
    assert problem == ("" if fits else "netcl-plugin-a 1.0 needs Python >=3.12; this is 3.11.7")


def test_a_plugin_beside_it_is_taken_as_new_as_the_core_allows(
    make_wheel: Write, tmp_path: Path
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1", requires=["numpy>=2"])
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-plugin-b"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.0", requires=["old"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.5", requires=["scipy", "netcl-plugin-a"])
    make_wheel(tmp_path, "netcl-plugin-b", "2.0", requires=["new", "netcl-core>=0.2"])
    choice = pick(tmp_path)
    assert [str(each) for each in choice.plugins] == ["netcl-plugin-b 1.5"]
    assert choice.others == ("numpy>=2", "scipy")


def test_no_version_beside_it_fits(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-plugin-b>=2"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.0")
    make_wheel(tmp_path, "netcl-plugin-b", "1.5")
    said = "netcl-plugin-a 1.0 needs netcl-plugin-b>=2; there is 1.5, 1.0"
    assert pick(tmp_path).problem == said


@pytest.mark.parametrize("name", ["netcl-core", "netcl-plugin-b", "helper"])
def test_a_requirement_with_an_address_is_refused(
    make_wheel: Write, tmp_path: Path, name: str
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=[f"{name} @ https://a.example/x.whl"])
    make_wheel(tmp_path, "netcl-plugin-b")
    said = f"netcl-plugin-a 1.0 needs {name} from https://a.example/x.whl; only wheels by name"
    assert pick(tmp_path).problem.startswith(said)


def test_markers_and_extras_count(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(
        tmp_path,
        "netcl-core",
        "0.1.1",
        requires=["runtime; extra == 'cpu'", "never; extra == 'dev'", "schema; extra == 'check'"],
    )
    requires = ["netcl-core[cpu]", "old; python_version < '3.12'", "new; python_version >= '3.12'"]
    make_wheel(tmp_path, "netcl-plugin-a", requires=requires)
    assert pick(tmp_path).others == ("old", "runtime", "schema")
    assert pick(tmp_path, python="3.12.1").others == ("new", "runtime", "schema")


def test_each_python_gets_the_wheel_that_is_for_it(make_wheel: Write, tmp_path: Path) -> None:
    here = next(iter(platform_tags()))
    for tag in (f"cp312-cp312-{here}", f"cp311-cp311-{here}", "cp311-cp311-win_other"):
        make_wheel(tmp_path, "netcl-plugin-a", tag=tag)
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-b", requires=["netcl-plugin-a"])
    wheels = shelves(tmp_path, tmp_path)
    seen = [Interpreter(minor, f"{minor}.1", "/python") for minor in ("3.11", "3.12", "3.13")]
    planned = tasks(wheels, seen, [Presence(RUNTIMES["numpy"])], "run")
    assert len({task.cell for task in planned}) == len(planned) == 6
    named = {(task.plugin.name[-1], task.cell.python): task for task in planned}
    for minor, tag in (("3.11", "cp311"), ("3.12", "cp312")):
        assert named["a", minor].plugin.path.name.endswith(f"{tag}-{here}.whl")
        (needed,) = named["b", minor].choice.plugins
        assert needed.path == named["a", minor].plugin.path
    for plugin in "ab":
        assert named[plugin, "3.13"].choice.problem.endswith(
            "is not for Python 3.13 on this system"
        )


# -- processes -----------------------------------------------------------------------


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time; print('begun', flush=True);"
        "subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    )
    begun = time.monotonic()
    ended = Processes().run([sys.executable, "-c", code], tmp_path, clean_variables(), 2)
    assert time.monotonic() - begun < 30  # the grandchild holds the pipe as long as it lives
    assert ended.code is None
    assert ended.how == "ran out of time"
    assert ended.tail == "begun"


def test_a_crash_is_named(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    ended = Processes().run([sys.executable, "-c", code], tmp_path, clean_variables())
    assert (ended.code, ended.how) == (-signal.SIGSEGV, "was ended by SIGSEGV")


def test_stop_ends_what_runs_and_starts_nothing(tmp_path: Path) -> None:
    processes = Processes()
    ends: list[BaseException] = []

    def sleep() -> None:
        try:
            processes.run(["sleep", "60"], tmp_path, clean_variables())
        except StoppedError as error:
            ends.append(error)

    thread = threading.Thread(target=sleep)
    thread.start()
    while not processes._running and thread.is_alive():
        time.sleep(0.01)
    processes.stop()
    thread.join(30)
    assert len(ends) == 1
    with pytest.raises(StoppedError):
        processes.run([sys.executable, "-V"], tmp_path, clean_variables())


def test_a_cell_gets_nothing_of_the_callers_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NETCL_PLUGINS", "PYTHONPATH", "OCL_ICD_FILENAMES", "VIRTUAL_ENV", "PIP_PRE"):
        monkeypatch.setenv(name, "x")
    assert {"NETCL_PLUGINS", "PYTHONPATH", "OCL_ICD_FILENAMES", "VIRTUAL_ENV"}.isdisjoint(
        clean_variables()
    )
    assert "PIP_PRE" in clean_variables()
    assert "PIP_PRE" not in clean_variables("PIP_")
    assert clean_variables()["PATH"] == os.environ["PATH"]


# -- Pythons -------------------------------------------------------------------------


def test_the_running_python_is_found_by_version_and_by_path() -> None:
    found = pythons.find(pythons.running())
    assert found.problem == ""
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert pythons.find(sys.executable).minor == pythons.running()


def test_a_relative_path_is_found_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert pythons.find("bin/python").path == str(tmp_path / "bin" / "python")


def test_a_python_that_is_not_there_says_so() -> None:
    found = pythons.find("3.99")
    assert (found.minor, found.version) == ("3.99", "")
    assert "Python 3.99 was not found" in found.problem


@pytest.mark.parametrize("wanted", ["/nowhere/python3", "newest", "3"])
def test_a_word_that_is_no_python(wanted: str) -> None:
    with pytest.raises(UsageError, match="does not start; expected a version such as"):
        pythons.find(wanted)


def test_two_pythons_of_one_version() -> None:
    minor = pythons.running()
    assert [each.minor for each in pythons.find_all([minor, minor, "3.99"])] == [minor, "3.99"]
    with pytest.raises(UsageError, match=f"both Python {minor}"):
        pythons.find_all([minor, sys.executable])


# -- runtimes ------------------------------------------------------------------------


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A system with PoCL and NVIDIA's driver."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    (folder / "pocl.icd").write_text("libpocl.so.2.10.0")
    (folder / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    return folder


def test_a_runtime_gets_its_own_libraries_only(system: Path) -> None:
    assert libraries(RUNTIMES["pocl"], None, system) == ["libpocl.so.2.10.0"]
    assert libraries(RUNTIMES["gpu"], None, system) == ["libnvidia-opencl.so.1"]
    assert libraries(RUNTIMES["numpy"], None, system) == []
    assert libraries(RUNTIMES["intel"], None, system) == []
    (system / "nvidia.icd").unlink()
    assert libraries(RUNTIMES["gpu"], None, system) == ["libnvidia-opencl.so.1"]  # unlisted


def test_a_package_lists_its_library_with_a_wrong_path(tmp_path: Path, system: Path) -> None:
    layer = tmp_path / "layer"
    vendors = layer / "etc" / "OpenCL" / "vendors"
    vendors.mkdir(parents=True)
    (vendors / "intel-cpu.icd").write_text("/somebody/elses/lib/libintelocl.so\n")
    (vendors / "intel-emu.icd").write_text("/somebody/elses/lib/libabsent.so\n")
    library = layer / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.write_text("")
    assert libraries(RUNTIMES["intel"], layer, system) == [str(library)]


def test_a_runtime_is_shown_alone(
    tmp_path: Path, system: Path, monkeypatch: pytest.MonkeyPatch, opencl: dict[str, Any]
) -> None:
    monkeypatch.setattr(runtimes, "libraries", lambda *_: ["libpocl.so.2"])
    seen: list[Path] = []

    def ask(vendors: Path) -> Any:
        seen.append(vendors)
        return {"devices": [opencl], "rejected": [], "opencl_problem": ""}

    presence = locate(RUNTIMES["pocl"], None, tmp_path / "icd", ask)
    assert [path.read_text() for path in seen[0].iterdir()] == ["libpocl.so.2\n"]
    assert presence.spec == "opencl:0"
    assert presence.facts["driver"] == "3.1"


NOTHING: dict[str, Any] = {"devices": [], "rejected": [], "opencl_problem": "no platform"}


@pytest.mark.parametrize(
    ("name", "found", "missing", "problem"),
    [
        ("gpu", NOTHING, "a GPU with the system's driver is not there: no platform", ""),
        ("gpu", {"problem": "netcl devices was ended by SIGSEGV"}, "", "SIGSEGV"),
    ],
)
def test_a_runtime_without_a_device(
    tmp_path: Path, name: str, found: Any, missing: str, problem: str
) -> None:
    presence = locate(RUNTIMES[name], None, tmp_path / "icd", lambda _: found)
    assert presence.missing == missing
    assert problem in presence.problem
    assert bool(presence.problem) == bool(problem)


def test_a_device_that_is_refused_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells run, and say themselves what is wrong with it."""
    monkeypatch.setattr(runtimes, "libraries", lambda *_: ["libpocl.so.2"])
    refused = {"name": "pthread", "platform": "Portable Computing Language", "reason": "no build"}
    found = {**NOTHING, "rejected": [refused]}
    presence = locate(RUNTIMES["pocl-wheel"], tmp_path, tmp_path / "icd", lambda _: found)
    assert (presence.missing, presence.problem) == ("", "")
    assert presence.facts["device"] == "pthread"
    assert presence.spec == "opencl"


def test_a_cpu_does_not_pass_for_a_gpu(tmp_path: Path, opencl: dict[str, Any]) -> None:
    found = {**NOTHING, "devices": [opencl], "opencl_problem": ""}
    presence = locate(RUNTIMES["gpu"], None, tmp_path / "icd", lambda _: found)
    assert presence.missing.endswith("no device of its kind was found")


def test_a_refused_cpu_does_not_pass_for_a_gpu(tmp_path: Path) -> None:
    refused = {"name": "pthread", "platform": "Portable Computing Language", "reason": "no build"}
    found = {**NOTHING, "rejected": [refused], "opencl_problem": ""}
    presence = locate(RUNTIMES["gpu"], None, tmp_path / "icd", lambda _: found)
    assert presence.missing.endswith("no device of its kind was found")


def test_the_numpy_path_needs_no_library(tmp_path: Path, numpy_path: dict[str, Any]) -> None:
    found = {**NOTHING, "devices": [numpy_path]}
    presence = locate(RUNTIMES["numpy"], None, tmp_path / "icd", lambda _: found)
    assert presence == Presence(RUNTIMES["numpy"], vendors=tmp_path / "icd", device=numpy_path)
    assert list(presence.vendors.iterdir()) == []


def test_a_tool_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    presence = locate(RUNTIMES["oclgrind"], None, tmp_path / "icd", lambda _: NOTHING)
    assert presence.missing == "oclgrind is not on PATH"


def test_a_tool_says_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "oclgrind"
    tool.write_text("#!/bin/sh\necho; echo Oclgrind 21.10\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    presence = locate(RUNTIMES["oclgrind"], None, tmp_path / "icd", lambda _: NOTHING)
    assert presence.facts["driver"] == "21.10"
    assert presence.spec == ""
