"""The runtimes of a matrix: which of them are there, and how a cell sees one alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_tools.matrix import runtimes
from netcl_plugin_tools.matrix.runtimes import RUNTIMES, Presence, libraries, locate

Write = Callable[..., Path]


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
