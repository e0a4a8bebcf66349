"""Dialects: which functions of float32 arithmetic a runtime gets spelled in another way.

A runtime's own function is what an expression gets unless a measurement says
otherwise, so unknown runtimes and simulators speak the plain dialect. float64 is
always the runtime's own. The OpenCL C stands in `templates/kernels/functions.cl.j2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

from netcl_core.device.device import Device


@final
@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """The helpers of `functions.cl.j2` that stand for functions of float, by function.

    `recip` is 1 / x.
    """

    name: str
    helpers: Mapping[str, str]


PLAIN: Final = Dialect("plain", {})
#: What CPU platforms speak, by the beginning of their name.
ON_CPUS: Final[Mapping[str, Dialect]] = {
    "Intel": Dialect("intel", {"exp": "exp_native", "tanh": "tanh_rational"}),
    "Portable Computing Language": Dialect(
        "pocl", {"exp": "exp_polynomial", "tanh": "tanh_rational"}
    ),
}
#: The same on GPUs.
ON_GPUS: Final[Mapping[str, Dialect]] = {
    "NVIDIA": Dialect("nvidia", {"exp": "exp_native", "recip": "recip_native"}),
}


def dialect_of(device: Device) -> Dialect:
    """The dialect of a device's runtime."""
    if not device.simulator:
        for start, dialect in (ON_GPUS if device.kind == "gpu" else ON_CPUS).items():
            if device.platform.startswith(start):
                return dialect
    return PLAIN
