"""Backends: where the memory of tensors lives and how kernels reach it."""

from __future__ import annotations

from typing import Any, Final, Protocol

import numpy as np

from netcl_core.device.device import Device
from netcl_core.dtypes import Dtype
from netcl_core.runtime.numpy_stream import NumpyBackend
from netcl_core.runtime.opencl_stream import OpenCLBackend


class Backend(Protocol):
    """What both rooms offer. A buffer of no elements is None on OpenCL."""

    device: Device

    def allocate(self, size: int, dtype: Dtype) -> Any:
        """An uninitialised buffer of `size` elements."""

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        """A buffer with a copy of a host array."""

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        """A fresh flat host array; waits for what is still running."""

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        """Copy `size` elements between two buffers of this device."""

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        """Set all elements to one value."""


_backends: Final[dict[Device, Backend]] = {}


def backend_of(device: Device) -> Backend:
    """The backend of a device, made on first use."""
    backend = _backends.get(device)
    if backend is None:
        made: Backend = NumpyBackend(device) if device.backend == "numpy" else OpenCLBackend(device)
        backend = _backends.setdefault(device, made)
    return backend
