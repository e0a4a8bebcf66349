"""Environments of cells: made once for the same content, by the fastest tool that is there.

uv links every wheel into each environment. Without it, third-party packages go into a layer
that environments share, and pip adds the core and the plugins: a virtual environment without
pip, with the Python's own pip working from outside, is made faster than any that holds one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_plugin_kit.packages.wheel import Wheel

from netcl_plugin_tools.matrix.processes import Ended, Processes
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.wheelhouse import (
    Supply,
    conflict,
    digest,
    excludes,
    offline_variables,
    write,
)

_DISTRIBUTION: Final = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.dist-info")
#: uv says "not found" of what is missing; of what excludes each other it only concludes.
_UV_REFUSES: Final = "No solution found when resolving dependencies"
_UV_MISSES: Final = re.compile(r"(was|were) not found|not found in the (package|provided)")


@final
@dataclass(frozen=True, slots=True)
class Made:
    """An environment, or why there is none.

    Attributes:
        excluded: Whether the problem is that versions exclude each other.
        packages: Name -> version of what is installed in it.
    """

    folder: Path = Path()
    packages: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    excluded: bool = False

    def program(self, name: str) -> Path:
        """A program of the environment, such as `netcl`."""
        return self.folder / ("Scripts" if os.name == "nt" else "bin") / name


@final
class Environments:
    """The environments below a folder; safe to ask from several threads and processes.

    A half-made environment has no note beside it, and so is never used.
    """

    def __init__(self, folder: Path, processes: Processes, uv: str | None) -> None:
        self.folder, self.uv = folder, uv
        self._processes = processes
        self._locks: dict[str, threading.Lock] = {}
        self._failed: dict[str, Made] = {}

    @property
    def tool(self) -> str:
        """What makes them, and why that."""
        if self.uv:
            return "uv (the fastest: it links wheels instead of unpacking them)"
        return "venv and pip, third-party packages in shared layers (there is no uv on PATH)"

    def layer(self, python: Interpreter, supply: Supply) -> Made:
        """An environment of exactly these wheels, without looking at what they require."""
        return self._once("layer", python, [digest(*map(str, supply.files))], supply, ())

    def environment(
        self,
        python: Interpreter,
        supply: Supply,
        wheels: Sequence[Wheel],
        links: Path,
        named: Sequence[Wheel],
    ) -> Made:
        """An environment of third-party wheels and of the core's and a plugin's.

        What `named` has of the wheels is installed by name. The others, which these need, come
        from the folder `links`, as the tool chooses; they only tell environments apart.
        """
        content = [supply.digest, *(wheel.sha256 for wheel in wheels)]
        return self._once("cell", python, content, supply, [each.path for each in named], links)

    def _once(
        self,
        kind: str,
        python: Interpreter,
        content: Sequence[str],
        supply: Supply,
        wheels: Sequence[Path],
        links: Path | None = None,
    ) -> Made:
        key = f"{kind}-py{python.minor}-{digest(python.version, bool(self.uv) * 'uv', *content)}"
        with self._locks.setdefault(key, threading.Lock()):
            made = self._failed.get(key) or self._noted(key)
            if made is None:
                made = self._make(key, python, supply, wheels, links)
                if made.problem:
                    self._failed[key] = made
            return made

    def _noted(self, key: str) -> Made | None:
        note = self.folder / f"{key}.json"
        if not note.is_file():
            return None
        data = json.loads(note.read_text(encoding="utf-8"))
        folder = self.folder / data["folder"]
        return Made(folder, tuple(data["packages"].items())) if folder.is_dir() else None

    def _make(
        self,
        key: str,
        python: Interpreter,
        supply: Supply,
        wheels: Sequence[Path],
        links: Path | None,
    ) -> Made:
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix=f"{key}-"))
        try:
            install = self._with_uv if self.uv else self._with_pip
            made = install(folder, python, supply, wheels, links)
        except BaseException:  # an interrupt too leaves nothing half-made
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if made.problem:
            shutil.rmtree(folder, ignore_errors=True)
            return made
        note = {"folder": folder.name, "packages": dict(made.packages)}
        write(self.folder / f"{key}.json", json.dumps(note))
        return made

    def _with_uv(
        self,
        folder: Path,
        python: Interpreter,
        supply: Supply,
        wheels: Sequence[Path],
        links: Path | None,
    ) -> Made:
        assert self.uv is not None  # looked at by the caller
        quiet = ["--quiet", "--offline", "--no-config"]
        ended = self._run([self.uv, "venv", *quiet, "--clear", "--python", python.path, folder])
        if ended.code != 0:
            return _refused("uv venv", ended)
        install = [self.uv, "pip", "install", *quiet, "--no-index", "--python", folder]
        install += ["--find-links", links] if links else ["--no-deps"]
        ended = self._run([*install, *wheels, *supply.files])
        if ended.code != 0:
            return _refused("uv pip install", ended)
        return Made(folder, _installed(folder))

    def _with_pip(
        self,
        folder: Path,
        python: Interpreter,
        supply: Supply,
        wheels: Sequence[Path],
        links: Path | None,
    ) -> Made:
        ended = self._run([python.path, "-m", "venv", "--without-pip", "--clear", folder])
        if ended.code != 0:
            return _refused("venv", ended)
        shared: tuple[tuple[str, str], ...] = ()
        if wheels and supply.files:
            layer = self.layer(python, supply)
            if layer.problem:
                return layer
            shared = layer.packages
            (site,) = _sites(folder)
            (site / "layer.pth").write_text("".join(f"{each}\n" for each in _sites(layer.folder)))
        inside = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = python.pip[:3]
        install = [*pip, "--python", inside, "install", "--no-index", "--no-warn-script-location"]
        install += ["--find-links", links] if links else ["--no-deps"]
        ended = self._run([*install, *(wheels or supply.files)])
        if ended.code != 0:
            return _refused("pip install", ended)
        return Made(folder, tuple(sorted({**dict(shared), **dict(_installed(folder))}.items())))

    def _run(self, command: Sequence[object]) -> Ended:
        return self._processes.run(command, self.folder, offline_variables())


def _refused(tool: str, ended: Ended) -> Made:
    text = ended.stderr + ended.stdout
    if excludes(ended):
        said = conflict(ended)
    elif _UV_REFUSES in text and not _UV_MISSES.search(text):
        said = " ".join(text.partition(_UV_REFUSES)[2].split()).lstrip(": ").removeprefix("cause: ")
    else:
        return Made(problem=f"{tool} {ended.how}\n{ended.tail}")
    return Made(problem=f"versions exclude each other: {said}\n{ended.tail}", excluded=True)


def _sites(folder: Path) -> list[Path]:
    """The site-packages of an environment."""
    return sorted([*folder.glob("lib/python*/site-packages"), *folder.glob("Lib/site-packages")])


def _installed(folder: Path) -> tuple[tuple[str, str], ...]:
    """Name and version of every distribution in an environment, by the folders of metadata."""
    names = (path.name for site in _sites(folder) for path in site.glob("*.dist-info"))
    found = (_DISTRIBUTION.fullmatch(name) for name in names)
    return tuple(
        sorted((each["name"].replace("_", "-"), each["version"]) for each in found if each)
    )
