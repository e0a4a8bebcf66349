"""Builds the wheel of a project, for a check, without network.

A project is built by its own build backend, which has to be installed: nothing is fetched.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from netcl_market import child_processes

from netcl_core.errors import MissingExtraError, TargetError, message
from netcl_core.inspect.data import Scratch

_SECONDS: Final = 600
_TAIL: Final = 12


def project_table(project: Path) -> dict[str, Any]:
    """A project's pyproject.toml; raises TargetError if it has none or it is no TOML."""
    path = project / "pyproject.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        given = f"no usable pyproject.toml ({error})"
        expected = "a project folder, a wheel or the name of an installed plugin"
        raise TargetError(message(str(project), given, expected)) from error


def build_wheel(project: Path, into: Path) -> tuple[Path | None, str]:
    """The wheel of a project, or None with the end of what the build said.

    A copy is built: backends write into the folder, and what an earlier build left there
    would hide a file that is lost.

    Raises MissingExtraError if pip or the project's build backend is not installed.
    """
    _insist_on_tools(project_table(project))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "-w", str(into)]
    with Scratch("build") as folder:
        copy = Path(folder, project.resolve().name)
        try:
            shutil.copytree(project, copy, ignore=_left_out, ignore_dangling_symlinks=True)
            done = child_processes.run(
                [*command, str(copy)],
                _SECONDS,
                writable=[folder, into],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except subprocess.TimeoutExpired:
            return None, f"the build did not finish within {_SECONDS} s"
        except OSError as error:
            return None, f"the project cannot be copied: {error}"
    built = sorted(into.glob("*.whl"))
    if done.returncode or not built:
        lines = done.stdout.strip().splitlines()
        return None, "\n".join(lines[-_TAIL:])
    return built[0], ""


def _left_out(folder: str, names: Sequence[str]) -> set[str]:
    """What is no source: earlier builds, byte code, environments.

    `.git` is copied: backends ask it for the version.
    """
    is_project = "pyproject.toml" in names
    return {
        name
        for name in names
        if name == "__pycache__"
        or name.endswith(".egg-info")
        or (is_project and name in {"build", "dist"})
        or Path(folder, name, "pyvenv.cfg").is_file()
    }


def _insist_on_tools(table: Mapping[str, Any]) -> None:
    if importlib.util.find_spec("pip") is None:
        remedy = "Install pip (python -m ensurepip), or build the wheel and give that"
        raise MissingExtraError(
            message("netcl plugins check", "pip, which builds a project, is missing", "", remedy)
        )
    backend = str(table.get("build-system", {}).get("build-backend", "setuptools.build_meta"))
    module = backend.partition(":")[0].partition(".")[0]
    in_project = table.get("build-system", {}).get("backend-path")
    if not in_project and importlib.util.find_spec(module) is None:
        given = f"the project's build backend {backend!r} is not installed"
        remedy = f"Install it with: pip install {module}"
        raise MissingExtraError(message("netcl plugins check", given, "", remedy))
