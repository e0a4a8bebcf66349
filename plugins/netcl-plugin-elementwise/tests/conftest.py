"""What these tests share: the devices and counters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from netcl_plugin_kit.testing import recorded

import netcl_core as nc
from netcl_core.errors import DeviceError
from netcl_core.hardware import programs as cache
from netcl_core.plugins.registry import registry

#: The NumPy path, and the OpenCL runtimes that the tests know by a part of their name.
DEVICES = ["numpy", "opencl:intel", "opencl:portable", "opencl:nvidia"]


@pytest.fixture(scope="session", autouse=True)
def loaded() -> None:
    """What is wrong with other plugins is not our concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        registry.load()


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The device that a test is parametrised with, made the default; skips where it is missing."""
    try:
        found = nc.use_device(request.param)
    except DeviceError:
        pytest.skip(f"there is no device {request.param}")
    with found as chosen:
        yield chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `device` runs on each, unless it says on which."""
    marks = metafunc.definition.iter_markers("parametrize")
    marked = any("device" in mark.args[0] for mark in marks)
    if "device" in metafunc.fixturenames and not marked:
        metafunc.parametrize("device", DEVICES, indirect=True)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that are built or read from disk from now on."""
    found: list[str] = []
    original = cache._build

    def build(device: Any, source: str, who: str, *how: Any) -> Any:
        found.append(who)
        return original(device, source, who, *how)

    monkeypatch.setattr(cache, "_build", build)
    return found


@pytest.fixture
def launches(device: Any) -> Iterator[list[str]]:
    """The entry points of the kernels that are launched from now on."""
    with recorded(device) as stream:
        yield stream.launched
