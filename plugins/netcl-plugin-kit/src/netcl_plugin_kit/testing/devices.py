"""The devices that tests run on."""

from __future__ import annotations

import netcl_core as nc
from netcl_core import Device


def usable_devices(dtype: str = "float32") -> list[Device]:
    """The devices that can hold a dtype, the NumPy path last; simulators are left out.

    >>> str(usable_devices("float64")[-1])
    'numpy'
    """
    devices = [device for device in nc.devices() if not device.simulator]
    return [device for device in devices if dtype != "float64" or device.supports_fp64]
