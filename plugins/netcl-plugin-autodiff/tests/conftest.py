"""What these tests share: the devices that they run on."""

from __future__ import annotations

from typing import Any

import pytest

import netcl_core as nc

OPENCL = [each for each in nc.devices() if each.backend == "opencl"]


@pytest.fixture(params=["numpy", "opencl"])
def device(request: pytest.FixtureRequest) -> Any:
    if request.param == "opencl" and not OPENCL:
        pytest.skip("no OpenCL device")
    with nc.use_device("numpy" if request.param == "numpy" else OPENCL[0]):
        yield nc.default_device()
