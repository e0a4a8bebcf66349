"""Leaves and gradients for the tests of GradScaler, and a stream that counts what is read."""

from __future__ import annotations

from typing import Any

import numpy as np
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
from netcl_core.runtime.stream import StreamWrapper

DEVICES = usable_devices()
OPENCL = [device for device in DEVICES if device.backend == "opencl"]
HALF, WIDE = (np.float16, np.float32)


def leaf(*values: float, dtype: Any = WIDE) -> nc.Tensor:
    return nc.tensor(np.array(values, dtype), requires_grad=True)


def fill(tensor: nc.Tensor, *values: float) -> None:
    array = np.resize(np.array(values), tensor.shape).astype(tensor.dtype)
    tensor.grad = nc.tensor(array, tensor.device)


class Reads(StreamWrapper):
    """A stream that counts how often the host reads."""

    count = 0

    def download(self, buffer: Any, size: int, dtype: Any) -> Any:
        self.count += 1
        return super().download(buffer, size, dtype)
