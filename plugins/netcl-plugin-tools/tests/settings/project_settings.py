"""What the tests of settings share: a project's file, and the commands that change it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from netcl_market.states import States
from netcl_market.survey import survey

from netcl_core.cli import main

PROJECT = """\
# what we make
[project]
name = "ours"  # and nobody's

[tool.netcl]
device = "numpy"  # for now
plugins-disable = [
    "netcl-plugin-conv",  # we have our own
]

[tool.other]
x = 1
"""


def run(*words: str) -> Result:
    return CliRunner().invoke(main.netcl, ["plugins", *words])


def settings(path: Path) -> Any:
    return tomllib.loads(path.read_text())["tool"]["netcl"]


def states() -> dict[str, str]:
    return {each.distribution: each.state for each in survey(States())}
