"""Built OpenCL programs: kept in memory, and on disk by `binaries`.

The key on disk is the sha256 of the source, the build options, the platform, the device
and its driver version.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from netcl_core import config
from netcl_core.device import compiler
from netcl_core.device.device import Device, opencl_module
from netcl_core.errors import BuildError, message
from netcl_core.runtime import binaries
from netcl_core.runtime.memo import Memo
from netcl_core.runtime.rendering import digest

#: A program that came from a binary holds 10 to 50 KB of the host's memory.
MEMORY_ENTRIES: Final = 1024
OPTIONS: Final = "-cl-std=CL1.2"

_programs: Final[Memo[tuple[Device, str], Any]] = Memo(MEMORY_ENTRIES)
_building: Final = threading.RLock()


def build(device: Device, source: str, who: str) -> Any:
    """The built program of a source on a device: what `pyopencl.Kernel` takes.

    Raises BuildError with the numbered source and the compiler's log.
    """
    key = (device, source)
    program = _programs.get(key)
    if program is None:
        with _building:
            program = _programs.get(key) or _load_or_build(device, source, who)
            _programs.put(key, program)
    return program


def clear() -> None:
    """Forget the programs in memory (those on disk stay)."""
    _programs.clear()


def _load_or_build(device: Device, source: str, who: str) -> Any:
    kept = bool(config.get("cache"))
    name = digest(source, OPTIONS, device.platform, device.name, device.driver_version)
    binary = binaries.read(name) if kept else None
    program = None if binary is None else _loaded(device, binary)
    if program is not None:
        return program
    program = _compile(device, source, who)
    (binary,) = program.get_info(opencl_module().program_info.BINARIES)
    if kept:
        binaries.write(name, binary)
    return _lean(device, program, binary)


def _loaded(device: Device, binary: bytes) -> Any:
    """The program of a binary; None if this driver does not take it (any more)."""
    cl = opencl_module()
    try:
        return compiler.from_binary(cl, device.context, device.cl_device, binary)
    except cl.Error:
        return None


def _lean(device: Device, program: Any, binary: bytes) -> Any:
    """A program without what its compiler remembers of it, where that is the host's memory.

    Intel's runtime keeps 3 MB for each program that it compiled, and 8 KB for the same
    program from its binary. A simulator's binary is no program of its own.
    """
    if device.kind != "cpu" or device.simulator:
        return program
    return _loaded(device, binary) or program


def _compile(device: Device, source: str, who: str) -> Any:
    cl = opencl_module()
    try:
        return compiler.from_source(cl, device.context, source, OPTIONS)
    except cl.Error as error:
        numbered = "\n".join(
            f"{number:4d}  {line}" for number, line in enumerate(source.splitlines(), start=1)
        )
        raise BuildError(
            message(
                who,
                f"the OpenCL program did not build on {device!r}",
                "a program that the driver compiles",
                "The source and the compiler's log follow",
            )
            + f"\n{numbered}\n{error}"
        ) from error
