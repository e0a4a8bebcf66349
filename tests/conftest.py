"""What these tests share: child processes, clean environments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Environment, build, share_third_party

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def python() -> Callable[..., str]:
    """Run a piece of Python in a fresh process; returns what it printed.

    Keyword arguments are environment variables; PYTHONPATH comes before the checkout.
    """

    def run(code: str, **environment: str) -> str:
        path = os.pathsep.join(filter(None, (environment.pop("PYTHONPATH", ""), str(ROOT))))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, **environment, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout.strip()

    return run


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The third-party packages of this environment, without any of netcl's."""
    return share_third_party(tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="session")
def core_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The core's wheel, built from the checkout."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    (wheel,) = build(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")
    return wheel


@pytest.fixture
def new_environment(tmp_path: Path, third_party: Path) -> Callable[[str], Environment]:
    """Make a clean environment by name; it holds no netcl and never sees the checkout."""
    return lambda name="clean": Environment(tmp_path / name, third_party)
