"""Proves what one OpenCL device can do by building and running a tiny kernel on it.

Drivers list devices they cannot build for, and arithmetic they do not
advertise. So nothing here is read from a list: a kernel is built, run, and its
output compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from netcl_core.config import core_source
from netcl_core.errors import first_line
from netcl_core.hardware import programs
from netcl_core.hardware.device import Probe

if TYPE_CHECKING:
    import pyopencl

_TEMPLATE: Final = "kernels/probe.cl.j2"
_LANES: Final = 4
_DTYPES: Final = {"float": np.float32, "half": np.float16, "double": np.float64}
# These compilers are clang and advertise exactly what they compile; a failing build makes them
# print on the process's stderr.
_EXACT: Final = ("portable computing language", "oclgrind")


def prove(cl: Any, queue: pyopencl.CommandQueue, c_type: str) -> Probe:
    """What a Device asks of itself: whether it computes in 'float', 'half' or 'double'."""
    return (probe if c_type == "float" else probe_arithmetic)(cl, queue, c_type)


def probe(cl: Any, queue: pyopencl.CommandQueue, c_type: str = "float") -> Probe:
    """Build, run and compare the probe kernel in 'float', 'half' or 'double'.

    `cl` is the pyopencl module. Never raises for what the driver does: that
    becomes the reason. Takes 20 ms to 1 s, the first build of a driver longest; a
    fraction of that where the built kernel is kept on disk.
    """
    source = core_source(_TEMPLATE)  # outside the try: a missing template is no driver's fault
    try:
        given, got = _run(cl, queue, source, c_type)
    except Exception as error:  # a driver may raise anything; it becomes the reason
        return Probe(False, first_line(error))
    wanted = given * 2 + given[::-1]
    if not np.array_equal(got, wanted):
        return Probe(False, f"wrong result: {got.tolist()} instead of {wanted.tolist()}")
    return Probe(True, "built, ran, and the result is right")


def probe_arithmetic(cl: Any, queue: pyopencl.CommandQueue, c_type: str) -> Probe:
    """Whether 'half' or 'double' arithmetic works, advertised or not."""
    extension = {"half": "cl_khr_fp16", "double": "cl_khr_fp64"}[c_type]
    platform = queue.device.platform.name.lower()
    if extension not in queue.device.extensions.split() and platform.startswith(_EXACT):
        return Probe(False, f"{extension} is not advertised")
    return probe(cl, queue, c_type)


def _run(cl: Any, queue: pyopencl.CommandQueue, text: str, c_type: str) -> tuple[Any, Any]:
    given = np.arange(1, 2 * _LANES + 1, dtype=_DTYPES[c_type])[:_LANES]
    got = np.zeros_like(given)
    kernel = cl.Kernel(_build(cl, queue, text, c_type), "netcl_probe")
    flags = cl.mem_flags
    source = cl.Buffer(queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=given)
    target = cl.Buffer(queue.context, flags.READ_WRITE, got.nbytes)
    kernel(queue, (_LANES,), (_LANES,), source, target, cl.LocalMemory(given.nbytes))
    cl.enqueue_copy(queue, got, target, is_blocking=True)
    return given, got


def _build(cl: Any, queue: pyopencl.CommandQueue, text: str, c_type: str) -> Any:
    half = " -DNETCL_PROBE_HALF" if c_type == "half" else ""
    return programs.load(cl, queue.context, text, f"-DNETCL_PROBE_TYPE={c_type}{half}")
