"""Shows a project's sources as an installed distribution, without building or installing it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from distributions import install


def show(project: Path, site: Path) -> str:
    """Write a project's metadata into a folder; returns the PYTHONPATH on which it is installed."""
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    headers = [f"Requires-Dist: {requirement}" for requirement in table["dependencies"]]
    headers.append(f"License-Expression: {table['license']}")
    install(site, table["name"], {}, table["entry-points"], table["version"], headers)
    return os.pathsep.join((str(site), str(project / "src")))


def call(command: Sequence[str], cwd: Path, path: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m <command>` where the shown projects are installed."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
