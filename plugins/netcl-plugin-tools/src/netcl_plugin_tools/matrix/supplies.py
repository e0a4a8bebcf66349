"""Supplies: the third-party wheels of a matrix, resolved once per Python and kept as locks.

A lock is a `pylock.toml`, which names every wheel with its digest. From then on environments
are made of exactly these wheels, and newer ones change nothing until the folder is deleted.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from netcl_plugin_kit.packages.wheel_archive import digest_of

from netcl_core.errors import MissingExtraError, message
from netcl_core.files import write_whole
from netcl_plugin_tools.matrix.processes import Ended
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.uv import UPGRADE, Uv, conflict


@final
@dataclass(frozen=True, slots=True)
class Supply:
    """The wheels that meet some requirements under a Python, or why there are none.

    Attributes:
        wheels: The file name and the digest of each.
        lock: The lock that names them; None if nothing is required.
        excluded: Whether the problem is that versions exclude each other.
    """

    wheels: tuple[tuple[str, str], ...] = ()
    lock: Path | None = None
    problem: str = ""
    excluded: bool = False

    @property
    def digest(self) -> str:
        """Changes when any of the wheels is another."""
        return digest(*(text for wheel in self.wheels for text in wheel))


@final
class Supplies:
    """A folder of locks, and the uv that makes those that are missing."""

    def __init__(self, folder: Path, uv: Uv) -> None:
        self.folder, self.uv = folder, uv
        self._lock = threading.Lock()
        self._known: dict[str, Supply] = {}

    def provide(self, python: Interpreter, requirements: Sequence[str]) -> Supply:
        """The wheels that meet requirements; asks uv if that was never asked before."""
        with self._lock:
            key = digest(python.version, *sorted(requirements), "", *self._offered)
            if key not in self._known:
                lock = self.folder / f"pylock.{key}.toml"
                self._known[key] = _read(lock) or self._resolve(lock, python, requirements)
            return self._known[key]

    @cached_property
    def _offered(self) -> list[str]:
        """Where wheels come from; changes when a wheel of `links` was built again."""
        wheels = [path for folder in self.uv.links for path in sorted(folder.glob("*.whl"))]
        return [self.uv.index_url, *(f"{path.name} {digest_of(path)}" for path in wheels)]

    def _resolve(self, lock: Path, python: Interpreter, requirements: Sequence[str]) -> Supply:
        if not requirements:
            return Supply()
        with tempfile.TemporaryDirectory() as work:
            wanted = Path(work) / "requirements.txt"
            wanted.write_text("\n".join(requirements), encoding="utf-8")
            command = ["pip", "compile", wanted, "--format", "pylock.toml"]
            command += ["--no-build", "--python", python.path, *self.uv.sources]
            ended = self.uv.run(*command, index=True)
        if ended.code != 0:
            return self._refused(ended, requirements)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(lock, ended.stdout.encode())
        return _read(lock) or Supply()

    def _refused(self, ended: Ended, requirements: Sequence[str]) -> Supply:
        what, excluding = "third-party packages cannot be had", conflict(ended)
        if excluding:
            what = f"third-party packages exclude each other: {excluding}"
        elif not self.uv.download:
            what += " offline: give --find-links, or allow --download"
        problem = f"{what}\nwanted: {', '.join(requirements)}\n{ended.tail}"
        return Supply(problem=problem, excluded=bool(excluding))


def _read(lock: Path) -> Supply | None:
    """What a lock names; None if there is none."""
    if not lock.is_file():
        return None
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"]
    wheels = [wheel for package in packages for wheel in package["wheels"]]
    if not all("sha256" in wheel["hashes"] for wheel in wheels):  # an old uv that is on PATH
        given = f"{lock.name} has wheels without a digest"
        raise MissingExtraError(message("netcl matrix", given, "uv 0.13", UPGRADE))
    named = ((wheel["url"].rpartition("/")[2], wheel["hashes"]["sha256"]) for wheel in wheels)
    return Supply(tuple(named), lock)


def digest(*texts: str) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
