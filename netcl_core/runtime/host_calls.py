"""Work of the host's own libraries on an OpenCL device's buffers, without copies on CPUs.

A CPU device's buffer lies in the host's memory, so mapping it hands out that
memory itself. Mapping waits for what is queued before: a host call is for work
that is worth it, such as a large matrix product in a tuned BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from netcl_core.device.device import Device, opencl_module
from netcl_core.dtypes import DTYPES
from netcl_core.runtime.kernels import Spec


@final
@dataclass(frozen=True, slots=True)
class HostCall:
    """`run(inputs, output)`: NumPy arrays in their shapes; it fills `output` in place."""

    run: Callable[[Sequence[Any], Any], None]


@final
class HostBound:
    """A host call for tensors of given shapes on a device: call with buffers."""

    def __init__(
        self, device: Device, call: HostCall, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> None:
        self.device = device
        self.call = call
        self.specs = (*inputs, *outputs)

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Map, run and unmap; returns when the work is done."""
        flags = opencl_module().map_flags
        modes = [flags.READ] * len(inputs) + [flags.WRITE_INVALIDATE_REGION] * len(outputs)
        arrays: list[Any] = []
        try:
            for buffer, mode, spec in zip((*inputs, *outputs), modes, self.specs, strict=True):
                arrays.append(self._map(buffer, mode, spec))
            with np.errstate(all="ignore"):
                self.call.run(arrays[: len(inputs)], arrays[-1])
        finally:
            for array in arrays:
                if array.size:
                    array.base.release(self.device.queue)

    def _map(self, buffer: Any, mode: Any, spec: Spec) -> Any:
        dtype = DTYPES[spec.dtype].numpy
        if not spec.size:
            return np.empty(spec.shape, dtype)
        enqueue = opencl_module().enqueue_map_buffer
        array, _ = enqueue(self.device.queue, buffer, mode, 0, spec.shape, dtype, is_blocking=True)
        return array
