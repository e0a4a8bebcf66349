"""The commands of a catalogue's pages, run as they stand there in fresh environments."""

from __future__ import annotations

import html
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from distributions import write_wheel
from environments import ROOT, Environment, build, succeed
from served import served

from netcl_core.cli.main import netcl

pytestmark = pytest.mark.packaging
_COMMAND = re.compile(r'<div class="command"><pre[^>]*><code>(.*?)</code>', re.DOTALL)
ASK = "import netcl_core as nc; print({p.distribution: p.state for p in nc.plugins.list()})"


@pytest.fixture(scope="module")
def market(
    tmp_path_factory: pytest.TempPathFactory, core_wheel: Path
) -> Iterator[tuple[Path, str]]:
    """A catalogue over HTTP, and the address of the index that pip asks otherwise.

    netcl-plugin-far needs something that only that one has.
    """
    folder = tmp_path_factory.mktemp("market")
    wheels, site, usual = (folder / name for name in ("wheels", "site", "usual"))
    point = {"netcl_core.primitives": {"far_op": "far_op:far_op"}}
    needs = ["Requires-Dist: netcl-core", "Requires-Dist: far-away"]
    code = "from far_away import far_op\n"
    write_wheel(wheels, "netcl-plugin-far", {"far_op.py": code}, point, needs)
    op = "from netcl_core.autograd import AutogradPrimitive\n"
    op += "far_op = AutogradPrimitive('far_op', lambda x, a: f'{x[0]} * 2', None, arity=1)\n"
    write_wheel(usual / "simple" / "far-away", "far-away", {"far_away.py": op}, {})
    shutil.copy(core_wheel, wheels)
    build(ROOT / "plugins" / "netcl-plugin-elementwise", wheels, "wheel")
    with served(site) as address, served(usual) as other:
        words = [
            "catalogue",
            "build",
            "--wheels",
            str(wheels),
            "--out",
            str(site),
            "--url",
            address,
            "--other",
            "netcl-core",
        ]
        result = CliRunner().invoke(netcl, words)
        assert result.exit_code == 0, result.output
        yield site, f"{other}simple/"


@pytest.mark.parametrize("name", ["netcl-plugin-elementwise", "netcl-plugin-far"])
def test_the_commands_of_a_page_work(
    name: str, market: tuple[Path, str], new_environment: Callable[..., Environment]
) -> None:
    site, usual = market
    page = (site / "plugins" / f"{name}.html").read_text(encoding="utf-8")
    commands = [html.unescape(each) for each in _COMMAND.findall(page)]
    assert commands and all("<" not in each for each in commands)
    clean = new_environment()
    pip = clean.folder / "bin" / "pip"  # the environment has none of its own
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {clean.python} "$@"\n')
    pip.chmod(0o755)
    path = os.pathsep.join((str(pip.parent), os.environ["PATH"]))
    for each in commands:
        succeed(["sh", "-c", each], clean.work, PATH=path, PIP_INDEX_URL=usual, NO_PROXY="*")
    assert f"'{name}': 'active'" in clean.execute(ASK)
    assert "--extra-index-url" in commands[0] and "numpy" in page
    assert ("far-away" in page) == name.endswith("far")
