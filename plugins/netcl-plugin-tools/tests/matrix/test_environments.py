"""Environments are made by uv from small wheels, once for the same content, without a network."""

from __future__ import annotations

import socket
import stat
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from netcl_plugin_kit.packages.wheel import read_wheel
from netcl_plugin_kit.packages.wheel_archive import digest_of
from netcl_plugin_tools.matrix import pythons
from netcl_plugin_tools.matrix import uv as tool
from netcl_plugin_tools.matrix.environments import Environments, Made
from netcl_plugin_tools.matrix.processes import Ended, Processes, StoppedError
from netcl_plugin_tools.matrix.supplies import Supplies, Supply
from netcl_plugin_tools.matrix.uv import Uv

from netcl_core.errors import MissingExtraError

Write = Callable[..., Path]
PROGRAM = "import helper, sys\ndef main():\n    print('fake netcl', helper.answer, sys.argv[1:])\n"


@pytest.fixture
def uv(tmp_path: Path) -> Uv:
    """uv with a cache of its own and the folder `links`."""
    return Uv(tool.find_uv(), tmp_path / "cache" / "uv", Processes(), (tmp_path / "links",))


@pytest.fixture
def python(uv: Uv) -> pythons.Interpreter:
    return pythons.find(pythons.running(), uv)


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


def say(made: Made, *arguments: str) -> str:
    """What the environment's program prints."""
    assert made.problem == ""
    command = [made.program("netcl"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def names(supply: Supply) -> list[str]:
    return [name for name, _ in supply.wheels]


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Ended:
        raise AssertionError("a process was started")

    monkeypatch.setattr(Processes, "run", refuse)


def test_an_environment_is_made_once_and_works(
    tmp_path: Path,
    links: Path,
    plugins: Path,
    python: pythons.Interpreter,
    uv: Uv,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    supply = Supplies(tmp_path / "locks", uv).provide(python, ("helper>=1",))
    assert names(supply) == ["helper-1.1-py3-none-any.whl"]
    made = Environments(tmp_path / "made", uv)
    good = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert good.problem == ""
    said = dict(good.packages)
    assert said == {
        "helper": "1.1", "netcl-core": "0.1.1", "netcl-plugin-base": "1.0",
        "netcl-plugin-good": "1.0",
    }  # fmt: skip
    assert say(good, "check") == "fake netcl 42 ['check']\n"

    bad = environment(made, python, supply, plugins, "netcl_plugin_bad")
    assert bad.excluded
    first = bad.problem.partition("\n")[0]
    assert first.startswith("versions exclude each other: Because only netcl-core<0.2 is available")
    assert "depends on netcl-core>=0.2" in first
    kept = {path.name for path in (tmp_path / "made").iterdir()}
    assert len([name for name in kept if name.startswith("cell-")]) == 2  # one, and its note

    forbid(monkeypatch)  # the same content in another process needs none of it
    assert Supplies(tmp_path / "locks", uv).provide(python, ("helper>=1",)) == supply
    made = Environments(tmp_path / "made", uv)
    again = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert again == good
    with pytest.raises(AssertionError):
        environment(made, python, supply, plugins, "netcl_plugin_base")


def test_what_nothing_requires_is_there_by_name(
    tmp_path: Path, links: Path, plugins: Path, python: pythons.Interpreter, uv: Uv
) -> None:
    supply = Supplies(tmp_path / "locks", uv).provide(python, ("helper>=1",))
    made = Environments(tmp_path / "made", uv)
    alone = environment(made, python, supply, plugins, "netcl_plugin_base")
    both = environment(made, python, supply, plugins, "netcl_plugin_base", "netcl_plugin_good")
    assert alone.folder != both.folder and "netcl-plugin-good" in dict(both.packages)


def test_a_wheel_that_was_built_again_is_another(
    make_wheel: Write,
    tmp_path: Path,
    links: Path,
    plugins: Path,
    python: pythons.Interpreter,
    uv: Uv,
) -> None:
    made = Environments(tmp_path / "made", uv)

    def provide(url: str = "") -> Supply:
        supplies = Supplies(tmp_path / "locks", replace(uv, download=bool(url), index_url=url))
        return supplies.provide(python, ("helper<1.1",))

    def answer(supply: Supply) -> str:
        return say(environment(made, python, supply, plugins, "netcl_plugin_base"))

    first = provide()
    assert answer(first) == "fake netcl 41 []\n"
    before = (links / "helper-1.0-py3-none-any.whl").read_bytes()
    make_wheel(links, "helper", "1.0", files={"helper/__init__.py": "answer = 43"})
    second = provide()
    assert second.digest != first.digest
    assert names(second) == names(first) == ["helper-1.0-py3-none-any.whl"]
    assert answer(second) == "fake netcl 43 []\n"
    assert provide() == second
    (links / "helper-1.0-py3-none-any.whl").write_bytes(before)
    assert provide() == first
    locks = tmp_path / "locks"
    assert len(list(locks.iterdir())) == 2
    (tmp_path / "index" / "helper").mkdir(parents=True)
    (tmp_path / "index" / "helper" / "index.html").write_text("")
    assert provide((tmp_path / "index").as_uri()).digest == first.digest
    assert len(list(locks.iterdir())) == 3


@pytest.mark.parametrize(
    ("wanted", "excluded", "words"),
    [
        (("absent>=2",), False, "cannot be had offline: give --find-links, or allow --download"),
        (
            ("helper>=1.1", "picky"),
            True,
            "exclude each other: Because all versions of picky depend on helper<1.1 and you require"
            " helper>=1.1",
        ),
    ],
)
def test_wheels_that_cannot_be_had(
    tmp_path: Path,
    links: Path,
    python: pythons.Interpreter,
    uv: Uv,
    wanted: tuple[str, ...],
    excluded: bool,
    words: str,
) -> None:
    supply = Supplies(tmp_path / "locks", uv).provide(python, wanted)
    assert supply.wheels == ()
    assert supply.excluded == excluded
    assert words in supply.problem
    assert ", ".join(wanted) in supply.problem
    assert not (tmp_path / "locks").exists()


def test_a_missing_uv_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise FileNotFoundError("uv")

    for found in (None, missing):
        monkeypatch.setattr(tool, "find_uv_bin", found)
        monkeypatch.setattr(tool.shutil, "which", lambda _: "/usr/bin/uv")
        assert tool.find_uv() == "/usr/bin/uv"
        monkeypatch.setattr(tool.shutil, "which", lambda _: None)
        with pytest.raises(
            MissingExtraError, match=r"nor on PATH\. Run `pip install --upgrade uv`"
        ):
            tool.find_uv()


def test_a_lock_of_an_old_uv_is_refused(
    tmp_path: Path, python: pythons.Interpreter, uv: Uv, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = '[[packages]]\nwheels = [{ url = "file:///helper.whl", hashes = {} }]'
    monkeypatch.setattr(Processes, "run", lambda *_, **__: Ended(0, lock, ""))
    with pytest.raises(MissingExtraError, match=r"without a digest; expected uv 0\.13\. Run"):
        Supplies(tmp_path / "locks", uv).provide(python, ("helper",))


@pytest.mark.parametrize("download", [False, True])
def test_the_network_is_used_only_if_allowed(
    tmp_path: Path,
    plugins: Path,
    python: pythons.Interpreter,
    uv: Uv,
    monkeypatch: pytest.MonkeyPatch,
    download: bool,
) -> None:
    """uv is offline unless --download, and also then for everything but third-party wheels."""
    seen: list[list[str]] = []

    def note(self: Any, command: Any, cwd: Any, variables: Any, **how: Any) -> Ended:
        seen.append([str(part) for part in command])
        assert variables["UV_PYTHON_DOWNLOADS"] == "never"
        return Ended(int("compile" in seen[-1]), "", "ERROR: nothing")

    monkeypatch.setattr(Processes, "run", note)
    url = "https://mine.example" if download else ""
    uv = replace(uv, download=download, index_url=url)
    supply = Supplies(tmp_path / "locks", uv).provide(python, ("helper",))
    assert ("offline" in supply.problem) == (not download)
    locked = Supply((("helper", ""),), tmp_path / "pylock.toml")
    environment(Environments(tmp_path / "made", uv), python, locked, plugins, "netcl_plugin_base")
    resolve, venv, third_party, ours = seen
    assert "--offline" in venv and "--offline" in ours and "--no-index" in ours
    for command in (resolve, third_party):
        assert ("--offline" in command) == (not download)
    assert ("https://mine.example" in resolve) == download


def test_what_was_downloaded_once_is_there_offline(
    make_wheel: Write,
    tmp_path: Path,
    plugins: Path,
    python: pythons.Interpreter,
    uv: Uv,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also what meets other requirements, and when the index is gone."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    content = {"helper/__init__.py": "answer = 44"}
    wheel = make_wheel(tmp_path / "index" / "helper", "helper", files=content)
    link = f'<a href="{wheel.name}#sha256={digest_of(wheel)}">{wheel.name}</a>'
    (wheel.parent / "index.html").write_text(link)
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        online = replace(uv, links=(), download=True, index_url=url)
        supply = Supplies(tmp_path / "locks", online).provide(python, ("helper>=1",))
        made = Environments(tmp_path / "made", online)
        environment(made, python, supply, plugins, "netcl_plugin_base")
        server.shutdown()
    offline = replace(online, download=False)
    for wanted in ("helper>=1", "helper<2"):
        supply = Supplies(tmp_path / "locks", offline).provide(python, (wanted,))
        assert supply.problem == ""
        made = Environments(tmp_path / f"made of {wanted}", offline)
        base = environment(made, python, supply, plugins, "netcl_plugin_base")
        assert say(base) == "fake netcl 44 []\n"


def test_offline_no_address_of_any_wheel_is_asked(
    make_wheel: Write,
    tmp_path: Path,
    python: pythons.Interpreter,
    uv: Uv,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third-party wheel may require another by its address, which uv could follow."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/evil-1.0-py3-none-any.whl"
        make_wheel(tmp_path / "links", "helper", requires=[f"evil @ {address}"])
        supplies = Supplies(tmp_path / "locks", uv)
        for wanted in ("helper", f"evil @ {address}"):
            assert "cannot be had offline" in supplies.provide(python, (wanted,)).problem
        with pytest.raises(BlockingIOError):
            server.accept()


def test_an_interrupted_environment_leaves_nothing(
    tmp_path: Path, plugins: Path, python: pythons.Interpreter, uv: Uv
) -> None:
    uv.processes.stop()
    made = Environments(tmp_path / "made", uv)
    with pytest.raises(StoppedError):
        environment(made, python, Supply(), plugins, "netcl_plugin_good")
    assert list((tmp_path / "made").iterdir()) == []


PROGRAM_OF_UV = """#!/bin/sh
echo "$@" >> {log}
case "$*" in *" pip "*) if [ -e {refuse} ]; then cat {refuse} >&2; exit 1; fi ;; esac
"""


@pytest.fixture
def noting(tmp_path: Path) -> Uv:
    """A program that notes its arguments, and refuses to install when told to."""
    path = tmp_path / "uv"
    path.write_text(PROGRAM_OF_UV.format(log=tmp_path / "uv.log", refuse=tmp_path / "refuse"))
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return Uv(str(path), tmp_path / "cache" / "uv", Processes())


def test_what_uv_is_asked_for(
    tmp_path: Path, noting: Uv, plugins: Path, python: pythons.Interpreter
) -> None:
    supply = Supply((("helper-1.1-py3-none-any.whl", ""),), tmp_path / "pylock.toml")
    made = Environments(tmp_path / "made", noting)
    found = environment(made, python, supply, plugins, "netcl_plugin_good")
    assert found.problem == ""
    venv, third_party, ours = (tmp_path / "uv.log").read_text().splitlines()
    assert f"--python {python.path}" in venv
    assert f"--requirements {tmp_path / 'pylock.toml'}" in third_party
    for part in ("netcl_core-0.1.1", "netcl_plugin_good-1.0", f"--no-index --find-links {plugins}"):
        assert part in ours

    (tmp_path / "refuse").write_text("No solution found when resolving dependencies: a needs b<1")
    refused = environment(made, python, supply, plugins, "netcl_plugin_bad")
    assert refused.excluded
    assert refused.problem.startswith("versions exclude each other: a needs b<1")
