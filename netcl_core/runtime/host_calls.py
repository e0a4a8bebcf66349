"""Work of the host's own libraries on an OpenCL device's buffers, without copies on CPUs.

A CPU device's buffer lies in the host's memory, so mapping it hands out that
memory itself. Mapping waits for what is queued before: a host call is for work
that is worth it, such as a large matrix product in a tuned BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

from netcl_core.dtypes import DTYPES
from netcl_core.hardware.device import Device
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.stream import stream_of


@final
@dataclass(frozen=True, slots=True)
class HostCall:
    """`run(inputs, *outputs)`: NumPy arrays in their shapes; it fills the outputs in place.

    >>> double = nc.HostCall(lambda inputs, out: np.multiply(inputs[0], 2, out=out))
    >>> out = np.empty(2)
    >>> _ = double.run([np.array([1.0, 3.0])], out)
    >>> out
    array([2., 6.])

    The outputs are the results, and the residuals where the request asks for these.
    """

    run: Callable[..., None]


@final
class HostBound:
    """A host call for tensors of given shapes on a device: call with buffers."""

    __slots__ = ("call", "device", "forms", "outputs")

    def __init__(
        self, device: Device, call: HostCall, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> None:
        self.device = device
        self.call = call
        self.outputs = tuple(outputs)
        self.forms = [(spec.shape, DTYPES[spec.dtype].numpy) for spec in (*inputs, *outputs)]

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Returns when the work is done."""
        stream_of(self.device).host_call(self.call.run, inputs, outputs, self.forms)
