"""What these tests share: plugins of their own, child processes, clean environments."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from environments import Environment, build, projects, share_third_party
from given import Given

import netcl_core as nc

ROOT = Path(__file__).resolve().parent.parent
DEVICES = [device for device in nc.devices() if not device.simulator]


@pytest.fixture
def give() -> Iterator[Callable[..., None]]:
    """Register a plugin by name, with records; all are taken out again after the test."""
    names: list[str] = []

    def register(name: str, *records: Any, priority: int = 0) -> None:
        nc.plugins.register(Given(*records, priority=priority), name)
        names.append(name)

    yield register
    for name in dict.fromkeys(names):
        nc.plugins.unregister(name)


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    """Each device but the simulator, as the chosen one."""
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture(params=list(dict.fromkeys([nc.get_device("numpy"), DEVICES[0]])), ids=str)
def either(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    """NumPy's path and one device, for what depends on no driver."""
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture
def fast() -> Iterator[nc.Device]:
    """The device that is chosen where none is: for what does not depend on it."""
    with nc.use_device(DEVICES[0]) as chosen:
        yield chosen


@pytest.fixture
def on_numpy() -> Iterator[None]:
    """The NumPy path, for what does not depend on the device."""
    with nc.use_device("numpy"):
        yield


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


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Project name -> (wheel, sdist), built from the checkout."""
    pytest.importorskip("hatchling", reason="the build backend is not installed")
    base = tmp_path_factory.mktemp("dist")

    def make(project: Path) -> tuple[Path, Path]:
        sdist, wheel = sorted(build(project, base / project.name, "wheel", "sdist"), key=_is_wheel)
        return wheel, sdist

    with ThreadPoolExecutor(2) as pool:
        return dict(zip((p.name for p in projects()), pool.map(make, projects()), strict=True))


@pytest.fixture(scope="session")
def shelf(built: dict[str, tuple[Path, Path]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with all wheels, from which pip installs."""
    folder = tmp_path_factory.mktemp("shelf")
    for wheel, _ in built.values():
        shutil.copy(wheel, folder)
    return folder


def _is_wheel(path: Path) -> bool:
    return path.suffix == ".whl"


@pytest.fixture
def new_environment(tmp_path: Path, third_party: Path) -> Callable[[str], Environment]:
    """Make a clean environment by name; it holds no netcl and never sees the checkout."""
    return lambda name="clean": Environment(tmp_path / name, third_party)
