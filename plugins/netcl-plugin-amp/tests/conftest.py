"""What these tests share: the devices that they run on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import netcl_core as nc

sys.path.insert(0, str(Path(__file__).parent))  # the helpers beside the tests

from scaled import DEVICES, OPENCL


@pytest.fixture(params=DEVICES, ids=str)
def device(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture(params=[nc.get_device("numpy"), *OPENCL[:1]], ids=str)
def either(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture(params=OPENCL, ids=str)
def opencl(request: pytest.FixtureRequest) -> Any:
    with nc.use_device(request.param) as chosen:
        yield chosen
