"""Environments are made by pip from small wheels, once for the same content, without a network."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_kit.packages.wheel import read_wheel
from netcl_plugin_tools.matrix import pythons
from netcl_plugin_tools.matrix.environments import Environments, Made
from netcl_plugin_tools.matrix.processes import Ended, Processes, StoppedError
from netcl_plugin_tools.matrix.wheelhouse import (
    Supply,
    Wheelhouse,
    digest,
    offline_variables,
)

Write = Callable[..., Path]
PROGRAM = "import helper, sys\ndef main():\n    print('fake netcl', helper.answer, sys.argv[1:])\n"


@pytest.fixture
def python() -> pythons.Interpreter:
    return pythons.find(pythons.running())


@pytest.fixture
def links(make_wheel: Write, tmp_path: Path) -> Path:
    """Third-party wheels: `helper` in two versions, and one that excludes the newer."""
    folder = tmp_path / "links"
    make_wheel(folder, "helper", "1.0", files={"helper/__init__.py": "answer = 41"})
    make_wheel(folder, "helper", "1.1", files={"helper/__init__.py": "answer = 42"})
    make_wheel(folder, "picky", "1.0", requires=["helper<1.1"])
    return folder


@pytest.fixture
def plugins(make_wheel: Write, tmp_path: Path) -> Path:
    """A core with a program, and plugins that do and do not go with it."""
    folder = tmp_path / "plugins"
    program = {"netcl_core/program.py": PROGRAM}
    script = "[console_scripts]\nnetcl = netcl_core.program:main\n"
    make_wheel(folder, "netcl-core", "0.1.1", files=program, points=script, requires=["helper>=1"])
    make_wheel(folder, "netcl-plugin-good", requires=["netcl-core", "netcl-plugin-base"])
    make_wheel(folder, "netcl-plugin-base")
    make_wheel(folder, "netcl-plugin-bad", requires=["netcl-core>=0.2"])
    return folder


def environment(
    environments: Environments,
    python: pythons.Interpreter,
    supply: Supply,
    folder: Path,
    *names: str,
) -> Made:
    """An environment of the core and of plugins of a folder, each by its wheel's name."""
    wheels = [read_wheel(next(folder.glob(f"{name}-*.whl"))) for name in ("netcl_core", *names)]
    return environments.environment(python, supply, wheels, folder, wheels)


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Ended:
        raise AssertionError("a process was started")

    monkeypatch.setattr(Processes, "run", refuse)


def test_an_environment_is_made_once_and_works(
    tmp_path: Path,
    links: Path,
    plugins: Path,
    python: pythons.Interpreter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = Wheelhouse(tmp_path / "house", Processes(), [links])
    supply = house.provide(python, ("helper>=1",))
    assert [path.name for path in supply.files] == ["helper-1.1-py3-none-any.whl"]
    made = Environments(tmp_path / "made", Processes(), None)
    good = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert good.problem == ""
    said = dict(good.packages)
    assert said == {
        "helper": "1.1", "netcl-core": "0.1.1", "netcl-plugin-base": "1.0",
        "netcl-plugin-good": "1.0",
    }  # fmt: skip
    command = [good.program("netcl"), "check"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert text == "fake netcl 42 ['check']\n"

    bad = environment(made, python, supply, plugins, "netcl_plugin_bad")
    assert bad.excluded
    first = bad.problem.partition("\n")[0]
    assert first.startswith("versions exclude each other: The user requested netcl-core 0.1.1")
    assert "depends on netcl-core>=0.2" in first
    kept = {path.name for path in (tmp_path / "made").iterdir()}
    assert len([name for name in kept if name.startswith("cell-")]) == 2  # one, and its note

    forbid(monkeypatch)  # the same content in another process needs none of it
    house = Wheelhouse(tmp_path / "house", Processes(), [links])
    assert house.provide(python, ("helper>=1",)) == supply
    made = Environments(tmp_path / "made", Processes(), None)
    again = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert again == good
    with pytest.raises(AssertionError):
        environment(made, python, supply, plugins, "netcl_plugin_base")


def test_what_nothing_requires_is_there_by_name(
    tmp_path: Path, links: Path, plugins: Path, python: pythons.Interpreter
) -> None:
    supply = Wheelhouse(tmp_path / "house", Processes(), [links]).provide(python, ("helper>=1",))
    made = Environments(tmp_path / "made", Processes(), None)
    alone = environment(made, python, supply, plugins, "netcl_plugin_base")
    both = environment(made, python, supply, plugins, "netcl_plugin_base", "netcl_plugin_good")
    assert alone.folder != both.folder and "netcl-plugin-good" in dict(both.packages)


def test_a_wheel_that_was_built_again_is_another(
    make_wheel: Write, tmp_path: Path, links: Path, python: pythons.Interpreter
) -> None:
    def provide(url: str = "") -> Supply:
        house = Wheelhouse(tmp_path / "house", Processes(), [links], bool(url), url)
        return house.provide(python, ("helper<1.1",))

    first = provide()
    assert first.digest == digest("helper-1.0-py3-none-any.whl")  # that of earlier records
    before = (links / "helper-1.0-py3-none-any.whl").read_bytes()
    make_wheel(links, "helper", "1.0", files={"helper/__init__.py": "answer = 43"})
    second = provide()
    assert second.digest != first.digest
    assert second.files[0].read_bytes() == (links / second.files[0].name).read_bytes() != before
    assert provide() == second
    (links / "helper-1.0-py3-none-any.whl").write_bytes(before)
    assert provide() == first
    sets = tmp_path / "house" / "sets"
    assert len(list(sets.iterdir())) == 2
    assert provide("file:///nowhere").digest == first.digest
    assert len(list(sets.iterdir())) == 3


@pytest.mark.parametrize(
    ("wanted", "excluded", "words"),
    [
        (("absent>=2",), False, "cannot be had offline: give --find-links, or allow --download"),
        (
            ("helper>=1.1", "picky"),
            True,
            "exclude each other: The user requested helper>=1.1; picky 1.0 depends on helper<1.1",
        ),
    ],
)
def test_wheels_that_cannot_be_had(
    tmp_path: Path,
    links: Path,
    python: pythons.Interpreter,
    wanted: tuple[str, ...],
    excluded: bool,
    words: str,
) -> None:
    supply = Wheelhouse(tmp_path / "house", Processes(), [links]).provide(python, wanted)
    assert supply.files == ()
    assert supply.excluded == excluded
    assert words in supply.problem
    assert ", ".join(wanted) in supply.problem
    assert [path.name for path in (tmp_path / "house").iterdir()] == []


def test_a_missing_pip_is_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Ended(1, "", "/usr/bin/python3: No module named pip\n")
    monkeypatch.setattr(Processes, "run", lambda *_: ended)
    bare = pythons.Interpreter("3.11", "3.11.7", "/bare/python")
    problem = Wheelhouse(tmp_path, Processes()).provide(bare, ("helper",)).problem
    assert f"neither /bare/python nor {sys.executable} has pip; install" in problem
    assert "offline" not in problem


@pytest.mark.parametrize("download", [False, True])
def test_the_network_is_used_only_if_allowed(
    tmp_path: Path,
    python: pythons.Interpreter,
    monkeypatch: pytest.MonkeyPatch,
    download: bool,
) -> None:
    """pip gets no index, no configuration and no variable of anybody's unless --download."""
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://index.example")
    seen: list[Any] = []

    def note(self: Any, command: Any, cwd: Any, variables: Any, timeout: Any = None) -> Ended:
        seen.append(([str(part) for part in command], variables))
        return Ended(1, "", "ERROR: nothing")

    monkeypatch.setattr(Processes, "run", note)
    url = "https://mine.example" if download else ""
    house = Wheelhouse(tmp_path / "house", Processes(), [], download, url)
    supply = house.provide(python, ("helper",))
    ((command, variables),) = seen
    assert ("--no-index" in command) == (not download)
    assert ("https://mine.example" in command) == download
    assert ("PIP_EXTRA_INDEX_URL" in variables) == download
    assert ("offline" in supply.problem) == (not download)


def test_offline_pip_reads_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "https://index.example")
    variables = offline_variables()
    assert variables["PIP_CONFIG_FILE"] == os.devnull
    assert "PIP_FIND_LINKS" not in variables


def test_offline_no_address_of_any_wheel_is_asked(
    make_wheel: Write, tmp_path: Path, python: pythons.Interpreter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third-party wheel may require another by its address, and pip follows it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/evil-1.0-py3-none-any.whl"
        make_wheel(tmp_path / "links", "helper", requires=[f"evil @ {address}"])
        house = Wheelhouse(tmp_path / "house", Processes(), [tmp_path / "links"])
        assert "cannot be had offline" in house.provide(python, ("helper",)).problem
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_interrupted_environment_leaves_nothing(
    tmp_path: Path, plugins: Path, python: pythons.Interpreter
) -> None:
    processes = Processes()
    processes.stop()
    made = Environments(tmp_path / "made", processes, None)
    with pytest.raises(StoppedError):
        environment(made, python, Supply(), plugins, "netcl_plugin_good")
    assert list((tmp_path / "made").iterdir()) == []


UV = """#!/bin/sh
echo "$@" >> {log}
if [ "$1" = venv ]; then for last; do :; done; mkdir -p "$last/bin"; exit 0; fi
if [ -e {refuse} ]; then cat {refuse} >&2; exit 1; fi
"""


@pytest.fixture
def uv(tmp_path: Path) -> Path:
    """A program that notes its arguments, and refuses to install when told to."""
    path = tmp_path / "uv"
    path.write_text(UV.format(log=tmp_path / "uv.log", refuse=tmp_path / "refuse"))
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_uv_is_asked_for_everything_at_once(
    tmp_path: Path, uv: Path, plugins: Path, python: pythons.Interpreter
) -> None:
    supply = Supply((tmp_path / "helper-1.1-py3-none-any.whl",))
    made = Environments(tmp_path / "made", Processes(), str(uv))
    assert made.tool.startswith("uv")
    found = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert found.problem == ""
    venv, install = (tmp_path / "uv.log").read_text().splitlines()
    assert f"--python {python.path}" in venv
    assert "--offline --no-config --no-index" in install
    for part in (
        "netcl_core-0.1.1",
        "netcl_plugin_good-1.0",
        "helper-1.1",
        f"--find-links {plugins}",
    ):
        assert part in install

    (tmp_path / "refuse").write_text("No solution found when resolving dependencies: a needs b<1")
    refused = environment(made, python, supply, plugins, "netcl_plugin_bad")
    assert refused.excluded
    assert refused.problem.startswith("versions exclude each other: a needs b<1")


@pytest.mark.skipif(shutil.which("uv") is None, reason="there is no uv")
def test_the_real_uv_makes_one(
    tmp_path: Path, links: Path, plugins: Path, python: pythons.Interpreter
) -> None:
    supply = Wheelhouse(tmp_path / "house", Processes(), [links]).provide(python, ("helper",))
    made = Environments(tmp_path / "made", Processes(), shutil.which("uv"))
    good = environment(made, python, supply, plugins, "netcl_plugin_good")
    text = subprocess.run([good.program("netcl")], capture_output=True, text=True, check=True)
    assert text.stdout == "fake netcl 42 []\n"
    assert environment(made, python, supply, plugins, "netcl_plugin_bad").excluded
