"""netcl as a device of PyTorch: the tests of netcl-plugin-torch, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: They start processes.
pytestmark = pytest.mark.turns(4)

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent
PLUGINS = ["--disable-plugin-autoload", "-p", "netcl-kit", "-p", "hypothesispytest"]


@pytest.mark.parametrize("name", ["device", "operators", "programs", "compiling"])
def test_in_its_own_process(name: str) -> None:
    path = ROOT / "plugins" / "netcl-plugin-torch" / "tests" / f"test_{name}.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, "-q", str(path)],
        cwd=ROOT,
        env={**os.environ, "NETCL_TORCH_TESTS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
