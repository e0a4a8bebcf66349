"""Environments of cells: made by uv, which links wheels, and once for the same content."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_plugin_kit.packages.wheel import Wheel

from netcl_core.files import write_whole
from netcl_plugin_tools.matrix.processes import Ended
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.supplies import Supply, digest
from netcl_plugin_tools.matrix.uv import Uv, conflict

_DISTRIBUTION: Final = re.compile(r"(?P<name>.+?)-(?P<version>[^-]+)\.dist-info")


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

    def __init__(self, folder: Path, uv: Uv) -> None:
        self.folder, self.uv = folder, uv
        self._locks: dict[str, threading.Lock] = {}
        self._failed: dict[str, Made] = {}

    def layer(self, python: Interpreter, supply: Supply) -> Made:
        """An environment of a supply alone."""
        return self._once("layer", python, [supply.digest], supply)

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
        from the folder `links`, as uv chooses; they only tell environments apart.
        """
        content = [supply.digest, *(wheel.sha256 for wheel in wheels)]
        return self._once("cell", python, content, supply, links, named)

    def _once(
        self,
        kind: str,
        python: Interpreter,
        content: Sequence[str],
        supply: Supply,
        links: Path | None = None,
        named: Sequence[Wheel] = (),
    ) -> Made:
        key = f"{kind}-py{python.minor}-{digest(python.version, 'uv', *content)}"
        with self._locks.setdefault(key, threading.Lock()):
            environment = self._failed.get(key) or self._noted(key)
            if environment is None:
                environment = self._make(
                    key, lambda at: self._steps(at, python, supply, links, named)
                )
                if environment.problem:
                    self._failed[key] = environment
            return environment

    def _noted(self, key: str) -> Made | None:
        note = self.folder / f"{key}.json"
        if not note.is_file():
            return None
        data = json.loads(note.read_text(encoding="utf-8"))
        folder = self.folder / data["folder"]
        return Made(folder, tuple(data["packages"].items())) if folder.is_dir() else None

    def _make(self, key: str, steps: Callable[[Path], Iterator[Ended]]) -> Made:
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix=f"{key}-"))
        try:
            failed = next((ended for ended in steps(folder) if ended.code != 0), None)
        except BaseException:  # an interrupt too leaves nothing half-made
            shutil.rmtree(folder, ignore_errors=True)
            raise
        if failed is not None:
            shutil.rmtree(folder, ignore_errors=True)
            return _refused(failed)
        environment = Made(folder, _installed(folder))
        note = {"folder": folder.name, "packages": dict(environment.packages)}
        write_whole(self.folder / f"{key}.json", json.dumps(note).encode())
        return environment

    def _steps(
        self,
        folder: Path,
        python: Interpreter,
        supply: Supply,
        links: Path | None,
        named: Sequence[Wheel],
    ) -> Iterator[Ended]:
        """What uv does, one after the other as long as it succeeds."""
        yield self.uv.run("venv", "--clear", "--python", python.path, folder)
        install = ["pip", "install", "--python", folder]
        if supply.lock is not None:
            yield self.uv.run(*install, "--requirements", supply.lock, index=True)
        if named:
            offered = ["--no-index", "--find-links", links]
            yield self.uv.run(*install, *offered, *(wheel.path for wheel in named))


def _refused(ended: Ended) -> Made:
    if excluding := conflict(ended):
        problem = f"versions exclude each other: {excluding}\n{ended.tail}"
        return Made(problem=problem, excluded=True)
    return Made(problem=f"uv {ended.how}\n{ended.tail}")


def _installed(folder: Path) -> tuple[tuple[str, str], ...]:
    """Name and version of every distribution in an environment, by the folders of metadata."""
    names = (path.name for path in folder.rglob("site-packages/*.dist-info"))
    matches = (_DISTRIBUTION.fullmatch(name) for name in names)
    return tuple(
        sorted((match["name"].replace("_", "-"), match["version"]) for match in matches if match)
    )
