"""Interpreter: a Python that cells run under, found by its version or its path."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from click import UsageError

from netcl_core.errors import message

_FACTS: Final = """
import importlib.util, json, platform
print(json.dumps([platform.python_version(), importlib.util.find_spec("pip") is not None]))
"""
_VERSION: Final = re.compile(r"3\.\d+")
_SECONDS: Final = 30  # a slow disk takes a while to start an interpreter


@final
@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python, or why there is none.

    Attributes:
        minor: Such as `3.11`: its name on the board.
        version: Such as `3.11.7`; empty if it was not found.
        problem: Why it was not found.
    """

    minor: str
    version: str = ""
    path: str = ""
    has_pip: bool = False
    problem: str = ""

    @property
    def pip(self) -> list[str]:
        """The start of a pip command: the interpreter's own, else that of this process for it."""
        if self.has_pip:
            return [self.path, "-m", "pip"]
        return [sys.executable, "-m", "pip", "--python", self.path]


def running() -> str:
    """The version of this process, such as `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def find(wanted: str) -> Interpreter:
    """The Python that `3.11` or a path means; a version that is not there says so in `problem`.

    Raises UsageError for a word that is no version, and no Python that starts.
    """
    by_version = _VERSION.fullmatch(wanted)
    for path in _candidates(wanted) if by_version else (wanted,):
        facts = _facts(path)
        if facts is None:
            continue
        version, has_pip = facts
        minor = ".".join(version.split(".")[:2])
        if not by_version or minor == wanted:
            # Children work in folders of their own. Not resolved: it may be that of a venv.
            place = path if Path(path).name == path else str(Path(path).absolute())
            return Interpreter(minor, version, place, has_pip)
    if not by_version:
        expected = "a version such as 3.12, or the path of a Python"
        raise UsageError(message("--python", f"{wanted} does not start", expected))
    where = "neither on PATH nor under pyenv, and uv knows none"
    return Interpreter(wanted, problem=f"Python {wanted} was not found: {where}")


def find_all(wanted: Iterable[str]) -> list[Interpreter]:
    """As `find`; raises UsageError for two of the same version, which would share their cells."""
    found: dict[str, Interpreter] = {}
    for word in dict.fromkeys(wanted):
        python = find(word)
        if python.minor in found:
            given = f"{word} and another are both Python {python.minor}"
            raise UsageError(message("--python", given, "one of each version"))
        found[python.minor] = python
    return list(found.values())


def _candidates(minor: str) -> Iterator[str]:
    """Where a Python of a version may be: this one, PATH, pyenv's folder, what uv knows."""
    if minor == running():
        yield sys.executable
    name = f"python{minor}"
    if found := shutil.which(name):
        yield found
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(map(str, root.glob(f"versions/{minor}.*/bin/{name}")), reverse=True)
    if uv := shutil.which("uv"):
        yield from _output([uv, "python", "find", "--no-python-downloads", minor]).split("\n")[:1]


def _facts(path: str) -> Any:
    """(version, whether it has pip) of an interpreter; None if it does not start."""
    text = _output([path, "-I", "-c", _FACTS])
    return json.loads(text) if text.startswith("[") else None


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):  # not there, not executable, or hanging
        return ""
    return done.stdout.strip()
