"""Interpreter: a Python that cells run under, found by its version or its path."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from click import UsageError

from netcl_core.errors import MissingExtraError, message
from netcl_plugin_tools.matrix.uv import UPGRADE, Uv

_VERSION: Final = re.compile(r"3\.\d+")


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
    problem: str = ""


def running() -> str:
    """The version of this process, such as `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def find(wanted: str, uv: Uv) -> Interpreter:
    """The Python that `3.11` or a path means; a version that is not there says so in `problem`.

    Raises UsageError for a word that is no version, and no Python that starts.
    """
    if not _VERSION.fullmatch(wanted):
        path = shutil.which(wanted)
        interpreter = path and _known(str(Path(path).absolute()), uv)
        if not interpreter:
            expected = "a version such as 3.12, or the path of a Python"
            raise UsageError(message("--python", f"{wanted} does not start", expected))
        return interpreter
    interpreter = _known(sys.executable if wanted == running() else f"cpython{wanted}", uv)
    problem = f"Python {wanted} was not found: neither on PATH nor under pyenv, and uv has none"
    return interpreter or Interpreter(wanted, problem=problem)


def find_all(wanted: Iterable[str], uv: Uv) -> list[Interpreter]:
    """As `find`; raises UsageError for two of the same version, which would share their cells."""
    by_minor: dict[str, Interpreter] = {}
    for word in dict.fromkeys(wanted):
        python = find(word, uv)
        if python.minor in by_minor:
            given = f"{word} and another are both Python {python.minor}"
            raise UsageError(message("--python", given, "one of each version"))
        by_minor[python.minor] = python
    return list(by_minor.values())


def _known(request: str, uv: Uv) -> Interpreter | None:
    """The first Python that uv names for a path or a version."""
    ended = uv.run("python", "list", "--only-installed", "--output-format", "json", request)
    if ended.code != 0:
        given = f"`uv python list {request}` {ended.how}: {ended.tail}"
        raise MissingExtraError(message("netcl matrix", given, "", UPGRADE))
    for load in json.loads(ended.stdout):
        parts = load["version_parts"]
        return Interpreter(f"{parts['major']}.{parts['minor']}", load["version"], load["path"])
    return None
