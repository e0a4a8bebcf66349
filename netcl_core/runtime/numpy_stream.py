"""The NumPy backend: buffers are flat NumPy arrays. It needs no OpenCL at all."""

from __future__ import annotations

from typing import Any, TypeAlias, final

import numpy as np

from netcl_core.device.device import Device
from netcl_core.dtypes import Dtype

Array: TypeAlias = np.ndarray[Any, Any]


@final
class NumpyBackend:
    """Memory of the NumPy path."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def allocate(self, size: int, dtype: Dtype) -> Array:
        return np.empty(size, dtype.numpy)

    def upload(self, array: Array, dtype: Dtype) -> Array:
        return np.array(array, dtype.numpy, copy=True, order="C").reshape(-1)

    def download(self, buffer: Array, size: int, dtype: Dtype) -> Array:
        return buffer.copy()

    def copy(self, target: Array, source: Array, size: int, dtype: Dtype) -> None:
        np.copyto(target, source)

    def fill(self, buffer: Array, size: int, dtype: Dtype, value: Any) -> None:
        with np.errstate(all="ignore"):
            buffer.fill(value)
