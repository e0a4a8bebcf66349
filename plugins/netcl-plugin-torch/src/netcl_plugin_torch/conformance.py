"""The scenarios of the device, each in a process of its own: netcl_torch changes PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import Final

from netcl_plugin_kit.testing import Scenario

from netcl_core import Device

_NAMES: Final = ("trained", "compiled", "in_halves", "viewed", "saved")


def _play(name: str, device: Device) -> None:
    command = [sys.executable, "-m", "netcl_plugin_torch.scenarios", name]
    environment = {**os.environ, "NETCL_DEVICE": str(device)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name} on {device}: {done.stderr.strip()[-2000:]}"


#: No simulator: importing PyTorch there takes minutes.
SCENARIOS: Final = [
    Scenario("netcl_torch", name, partial(_play, name), simulated=False) for name in _NAMES
]
