"""Wheelhouse: the third-party wheels of a matrix, each downloaded at most once.

pip resolves a set of requirements once per Python and puts the wheels into one folder; a
small file beside them remembers which ones. From then on environments are made of exactly
these files, and nothing is asked of any index.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, final

from netcl_plugin_kit.packages.wheel_archive import digest_of

from netcl_plugin_tools.matrix.processes import Ended, Processes, clean_variables
from netcl_plugin_tools.matrix.pythons import Interpreter

#: What pip says when versions exclude each other, unlike when something is missing.
_EXCLUDING: Final = ("ResolutionImpossible", "requires a different Python")
_NOWHERE: Final = "http://127.0.0.1:9"  # the port of what was thrown away; nothing answers there
_REBUILT: Final = "rebuilt-"
_NO_PIP: Final = "No module named pip"
_CONFLICT: Final = re.compile(r"The conflict is caused by:\n(.+?)\n\s*\n", re.DOTALL)


@final
@dataclass(frozen=True, slots=True)
class Supply:
    """The wheels that meet some requirements under a Python, or why there are none.

    Attributes:
        excluded: Whether the problem is that versions exclude each other.
    """

    files: tuple[Path, ...] = ()
    problem: str = ""
    excluded: bool = False

    @property
    def digest(self) -> str:
        """Changes when any of the wheels is another."""
        return digest(*map(_place, self.files))


@final
class Wheelhouse:
    """A folder of wheels and where to get those that are missing.

    `links` are folders of wheels. The network is used only with `download`: then as pip
    is configured, with `index_url` in its index's place.
    """

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        links: Sequence[Path] = (),
        download: bool = False,
        index_url: str = "",
    ) -> None:
        self.folder, self.links = folder, tuple(links)
        self.download, self.index_url = download, index_url
        self._processes = processes
        self._lock = threading.Lock()
        self._known: dict[str, Supply] = {}

    def provide(self, python: Interpreter, requirements: Sequence[str]) -> Supply:
        """The wheels that meet requirements; asks pip if that was never asked before."""
        with self._lock:
            key = digest(python.version, *sorted(requirements), "", *self._offered)
            if key not in self._known:
                self._known[key] = self._remembered(key) or self._resolve(key, python, requirements)
            return self._known[key]

    @cached_property
    def _offered(self) -> list[str]:
        """What is there beside the folder; changes when a wheel of `links` was built again."""
        wheels = [path for folder in self.links for path in sorted(folder.glob("*.whl"))]
        rebuilt = [place for place in map(self._target, wheels) if place.parent != self.folder]
        index = [self.index_url] if self.index_url else []
        return [*(path.name for path in wheels), *map(_place, rebuilt), *index]

    def _target(self, wheel: Path) -> Path:
        """Where a wheel is kept: by its digest, if another of its name was there first."""
        first = self.folder / wheel.name
        if not first.exists() or filecmp.cmp(wheel, first, shallow=False):
            return first
        return self.folder / f"{_REBUILT}{digest_of(wheel)[:16]}" / wheel.name

    def _remembered(self, key: str) -> Supply | None:
        note = self._note(key)
        if not note.is_file():
            return None
        files = tuple(self.folder / name for name in json.loads(note.read_text(encoding="utf-8")))
        return Supply(files) if all(path.is_file() for path in files) else None

    def _resolve(self, key: str, python: Interpreter, requirements: Sequence[str]) -> Supply:
        if not requirements:
            return Supply()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-") as fresh,
            tempfile.TemporaryDirectory(dir=self.folder, prefix=".old-") as old,
        ):
            self._offer(Path(old))
            ended = self._pip(python, requirements, Path(fresh), Path(old))
            if ended.code != 0:
                problem = self._problem(python, ended, requirements)
                return Supply(problem=problem, excluded=excludes(ended))
            files = []
            for path in sorted(Path(fresh).iterdir()):
                files.append(self._target(path))
                if not files[-1].exists():
                    files[-1].parent.mkdir(exist_ok=True)
                    shutil.move(path, files[-1])
        write(self._note(key), json.dumps([_place(path) for path in files]))
        return Supply(tuple(files))

    def _offer(self, old: Path) -> None:
        """Fill a folder with what is kept, so that no wheel stands in the way of one of `links`."""
        newer = {path.name for folder in self.links for path in folder.glob("*.whl")}
        for path in self.folder.glob("*.whl"):
            if path.name not in newer:
                (old / path.name).hardlink_to(path)

    def _pip(
        self, python: Interpreter, requirements: Sequence[str], target: Path, old: Path
    ) -> Ended:
        links = [str(folder) for folder in (old, *self.links)]
        command = [*python.pip, "download", "--only-binary=:all:", "--dest", target]
        command += [option for link in links for option in ("--find-links", link)]
        if not self.download:
            command += ["--no-index"]
        elif self.index_url:
            command += ["--index-url", self.index_url]
        variables = clean_variables() if self.download else offline_variables()
        return self._processes.run([*command, *requirements], target, variables)

    def _problem(self, python: Interpreter, ended: Ended, requirements: Sequence[str]) -> str:
        what = "third-party packages cannot be had"
        if excludes(ended):
            what = f"third-party packages exclude each other: {conflict(ended)}"
        elif _NO_PIP in ended.stderr:
            what += f": neither {python.path} nor {sys.executable} has pip; install it into one"
        elif not self.download:
            what += " offline: give --find-links, or allow --download"
        return f"{what}\nwanted: {', '.join(requirements)}\n{ended.tail}"

    def _note(self, key: str) -> Path:
        return self.folder / "sets" / f"{key}.json"


def _place(wheel: Path) -> str:
    """Where a wheel is kept below the folder."""
    return "/".join(wheel.parts[-2 if wheel.parent.name.startswith(_REBUILT) else -1 :])


def excludes(ended: Ended) -> bool:
    """Whether pip refused since versions exclude each other."""
    return any(words in ended.stderr + ended.stdout for words in _EXCLUDING)


def conflict(ended: Ended) -> str:
    """What excludes what, in one line, in pip's words."""
    text = ended.stdout + ended.stderr
    found = _CONFLICT.search(text)
    if found is not None:
        return "; ".join(line.strip() for line in found[1].splitlines())
    lines = [line for line in text.splitlines() if any(words in line for words in _EXCLUDING)]
    return lines[0].removeprefix("ERROR: ") if lines else ""


def offline_variables() -> dict[str, str]:
    """An environment in which pip knows no index and no place of anybody's configuration.

    Nor does it get to the addresses that wheels require others by.
    """
    return {**clean_variables("PIP_"), "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1", "PIP_RETRIES": "0",
            "PIP_PROXY": _NOWHERE, "http_proxy": _NOWHERE, "https_proxy": _NOWHERE,
            "GIT_ALLOW_PROTOCOL": "none"}  # fmt: skip


def digest(*texts: str) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def write(path: Path, text: str) -> None:
    """Write a file that others see whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=".new-", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
    Path(file.name).replace(path)
