"""One device: what it is, what it can do, its context and its queue.

Also holds the one import of pyopencl, which is optional and not made before a
device is asked for.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import numpy as np

from netcl_core import config
from netcl_core.errors import DeviceError, first_line, message
from netcl_core.hardware import forks, icd

if TYPE_CHECKING:
    import pyopencl

Kind = Literal["gpu", "cpu", "accelerator"]
Backend = Literal["opencl", "numpy"]


_NO_CACHE: Final = "PYOPENCL_NO_CACHE"
#: The size of a float.
_FLOAT: Final = 4
#: The room above that allocates, once somebody asks for a device's memory.
_MEMORY: Final = "netcl_core.runtime.memory"


@lru_cache(maxsize=1)
def opencl_module() -> Any:
    """The pyopencl module, with the environment's runtimes shown to its loader.

    Raises ImportError or OSError where it is not installed or cannot be loaded.
    The one place that imports it, since OpenCL is optional.
    """
    icd.install()
    # Its own cache on disk holds code that fills in a kernel's arguments, which is quickly made. It
    # needs a home that can be written to, and threads that use it together have crashed.
    with config.variable(_NO_CACHE, "true"):
        import pyopencl

    return pyopencl


@dataclass(frozen=True)
class Probe:
    """Whether a device passed, and in one line what happened."""

    ok: bool
    reason: str


#: What tries a queue out: `(pyopencl, queue, "float" | "half" | "double")`. It builds a program, so
#: that it lies above.
Prove: TypeAlias = "Callable[[Any, pyopencl.CommandQueue, str], Probe]"


def _untried(cl: Any, queue: pyopencl.CommandQueue, c_type: str) -> Probe:
    return Probe(False, "nothing was tried")


@final
class Device:
    """One OpenCL device, or the NumPy path: what it is, what it can do, and its queue.

    >>> numpy = nc.get_device("numpy")
    >>> numpy.kind, numpy.supports_fp64
    ('cpu', True)

    `str(device)` is its id, which `use_device` takes. Equal only to itself;
    copies are itself, and it pickles as its id.

    Args:
        cl_device: The device of pyopencl.
        prove: Whether a kernel is built and run first.
    """

    __slots__ = (
        "__weakref__", "_is_open", "_lock", "_probes", "_prove", "_queue", "backend",
        "catch_up", "cl_device", "compute_units", "context", "driver_version", "extensions",
        "has_kernels", "id", "kind", "local_mem_bytes", "max_work_group_size", "name",
        "opencl_c", "platform", "simulator", "vector_bytes", "vendor",
    )  # fmt: skip

    id: str
    backend: Backend
    #: Whether it builds and launches kernels; else the references of ops compute.
    has_kernels: bool
    name: str
    platform: str
    kind: Kind
    vendor: str
    driver_version: str
    extensions: tuple[str, ...]
    max_work_group_size: int
    compute_units: int
    local_mem_bytes: int
    #: Bytes of the vectors that it computes floats in: 64 with AVX-512, 32 with AVX2, 16 with
    #: NEON; 4 where each work-item computes single floats, and on the NumPy path.
    vector_bytes: int
    simulator: bool
    opencl_c: tuple[int, int]
    cl_device: pyopencl.Device | None
    #: The device's own context, made on first use; None on the NumPy path.
    context: pyopencl.Context | None
    #: Enqueues what waits for a program that is being built; a stream sets it.
    catch_up: Callable[[], None] | None

    def __init__(self, cl_device: pyopencl.Device | None = None, prove: Prove = _untried) -> None:
        self.cl_device = cl_device
        self._prove = prove
        self._lock = threading.RLock()
        self._is_open = False
        self._probes: dict[str, Probe] = {}
        self.catch_up = None
        if cl_device is None:
            self._describe_numpy()
        else:
            self._describe_opencl(cl_device)

    def _describe_numpy(self) -> None:
        self.id, self.backend, self.kind, self.simulator = "numpy", "numpy", "cpu", False
        self.has_kernels = False
        self.name = self.platform = self.vendor = "NumPy"
        self.driver_version, self.extensions = np.__version__, ()
        self.max_work_group_size, self.local_mem_bytes, self.opencl_c = 1, 0, (0, 0)
        self.compute_units, self.vector_bytes = os.cpu_count() or 1, _FLOAT

    def _describe_opencl(self, cl_device: pyopencl.Device) -> None:
        self.id, self.backend = "opencl", "opencl"  # the table appends the index
        self.has_kernels = True
        self.name, self.vendor = cl_device.name.strip(), cl_device.vendor.strip()
        self.platform = cl_device.platform.name.strip()
        self.driver_version = cl_device.driver_version.strip()
        self.extensions = tuple(cl_device.extensions.split())
        self.simulator = is_simulator(cl_device)
        self.kind = "cpu" if self.simulator else _kind(cl_device)
        self.max_work_group_size = cl_device.max_work_group_size
        self.compute_units = cl_device.max_compute_units
        self.local_mem_bytes = cl_device.local_mem_size
        self.vector_bytes = _FLOAT * max(1, cl_device.native_vector_width_float)
        self.opencl_c = _language(cl_device.opencl_c_version)

    def __getattr__(self, name: str) -> Any:
        """`context` and `_queue`, when they are asked for the first time; then they are slots."""
        if name not in {"context", "_queue"}:
            raise AttributeError(f"a Device has no attribute {name!r}")
        with self._lock:
            if not self._is_open:
                context = queue = None
                if self.cl_device is not None:
                    forks.opened()
                    cl = opencl_module()
                    context = cl.Context([self.cl_device])
                    queue = cl.CommandQueue(context, self.cl_device)
                self.context, self._queue, self._is_open = context, queue, True
        return getattr(self, name)

    @property
    def queue(self) -> pyopencl.CommandQueue | None:
        """The one in-order queue, which all threads share, with all in it that was asked for.

        Made on first use; None on the NumPy path.
        """
        queue: pyopencl.CommandQueue | None = self._queue
        if self.catch_up is not None:
            self.catch_up()
        return queue

    @property
    def type(self) -> str:
        """PyTorch's word for it: 'cuda' for a GPU, whoever made it, else 'cpu'."""
        return "cuda" if self.kind == "gpu" else "cpu"

    @property
    def index(self) -> int | None:
        """The number in its id; None on the NumPy path."""
        return int(self.id.partition(":")[2]) if ":" in self.id else None

    @property
    def probe(self) -> Probe:
        """Whether a tiny float32 kernel builds, runs and gives the right result here."""
        return self._probed("float")

    @property
    def supports_fp16(self) -> bool:
        """Whether half arithmetic compiles and is right, advertised or not; found on first use."""
        return self._probed("half").ok

    @property
    def supports_fp64(self) -> bool:
        """Whether double arithmetic compiles and is right; found on first use."""
        return self._probed("double").ok

    def _probed(self, c_type: str) -> Probe:
        known = self._probes.get(c_type)
        if known is not None:
            return known
        with self._lock:
            if c_type not in self._probes:
                self._probes[c_type] = self._run_probe(c_type)
            return self._probes[c_type]

    def _run_probe(self, c_type: str) -> Probe:
        if not self.has_kernels:
            return Probe(True, "NumPy computes in every float type")
        try:
            queue = self.queue
        except Exception as error:  # a driver may raise anything; it becomes the reason
            return Probe(False, "no context or queue: " + first_line(error))
        assert queue is not None
        return self._prove(opencl_module(), queue, c_type)

    def memory_stats(self) -> dict[str, int]:
        """Bytes of the tensors that live on the device now, and what they took at most.

        >>> stats = nc.get_device("opencl:0").memory_stats()
        >>> sorted(stats)
        ['allocated', 'peak', 'reserved']

        `allocated` is what tensors hold now, `peak` the most since the start or since
        `reset_peak_memory_stats()`, `reserved` what the driver has given, with free buffers that
        are kept for later. All tensors of the process count, scratch memory of kernels, and all
        that captured graphs keep for their replays.

        Raises DeviceError on the NumPy path, whose memory Python's `tracemalloc` measures.
        """
        stats: dict[str, int] = self._memory().stats()
        return stats

    def reset_peak_memory_stats(self) -> None:
        """Start `peak` of `memory_stats()` anew, at what is allocated now."""
        self._memory().reset_peak()

    def _memory(self) -> Any:
        if not self.has_kernels:
            remedy = "Measure it with Python's tracemalloc"
            raise DeviceError(message("memory_stats", "the NumPy path", "an OpenCL device", remedy))
        return importlib.import_module(_MEMORY).memory_of(self)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<Device {self.id}: {self.name}>"

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Device:
        return self


def _language(text: str) -> tuple[int, int]:
    """The version in `OpenCL C 1.2 ...`; where a driver says something else, the least there is."""
    match = re.match(r"OpenCL C (\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1, 0)


def _kind(cl_device: pyopencl.Device) -> Kind:
    """GPU before CPU where a driver claims several types; custom hardware is an accelerator."""
    types = opencl_module().device_type
    if cl_device.type & types.GPU:
        return "gpu"
    return "cpu" if cl_device.type & types.CPU else "accelerator"


def is_simulator(cl_device: pyopencl.Device) -> bool:
    """Whether a device only simulates one: Oclgrind."""
    return "oclgrind" in f"{cl_device.platform.name} {cl_device.name}".lower()


def stand_in(kind: Kind) -> Device:
    """An OpenCL device that is not there, to plan kernels for; nothing runs on it."""
    device = Device()
    device.id, device.backend, device.kind = f"any {kind}", "opencl", kind
    device.has_kernels = True
    device.name = device.platform = device.vendor = "none"
    device.driver_version, device.extensions = "0", ("cl_khr_fp16", "cl_khr_fp64")
    device.max_work_group_size, device.local_mem_bytes, device.compute_units = 256, 32768, 8
    device._probes = dict.fromkeys(("float", "half", "double"), Probe(True, "nothing runs on it"))
    return device
