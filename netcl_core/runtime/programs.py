"""Built OpenCL programs: kept in memory and on disk, both bounded.

The key is the sha256 of the source, the build options, the platform, the device
and its driver version. An entry on disk is written to a temporary file and then
renamed, so that processes never see half of one; the least recently used ones
go when the folder exceeds its bound.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import platformdirs

from netcl_core import config
from netcl_core.device.device import Device, opencl_module
from netcl_core.errors import BuildError, message
from netcl_core.runtime.rendering import digest

MEMORY_ENTRIES: Final = 2048
OPTIONS: Final = "-cl-std=CL1.2"

_programs: Final[OrderedDict[tuple[Device, str], Any]] = OrderedDict()
_lock: Final = threading.RLock()


def folder() -> Path:
    """The folder of the disk cache (it need not exist yet)."""
    chosen = config.get("cache-dir")
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("netcl")) / "programs"


def build(device: Device, source: str, who: str) -> Any:
    """The built `pyopencl.Program` of a source on a device.

    Raises BuildError with the numbered source and the compiler's log.
    """
    key = (device, source)
    with _lock:
        program = _programs.get(key)
        if program is None:
            program = _programs[key] = _load_or_build(device, source, who)
            if len(_programs) > MEMORY_ENTRIES:
                _programs.popitem(last=False)
        else:
            _programs.move_to_end(key)
    return program


def clear() -> None:
    """Forget the programs in memory (those on disk stay)."""
    with _lock:
        _programs.clear()


def _load_or_build(device: Device, source: str, who: str) -> Any:
    path = _path(device, source) if config.get("cache") else None
    if path is not None:
        program = _load(device, path)
        if program is not None:
            return program
    program = _compile(device, source, who)
    if path is not None:
        _save(program, path)
    return program


def _path(device: Device, source: str) -> Path:
    name = digest(source, OPTIONS, device.platform, device.name, device.driver_version)
    return folder() / f"{name}.bin"


def _load(device: Device, path: Path) -> Any:
    cl = opencl_module()
    try:
        binary = path.read_bytes()
        os.utime(path)
    except OSError:  # not there, or not ours to read: it is built
        return None
    try:
        return cl.Program(device.context, [device.cl_device], [binary]).build()
    except cl.Error:  # this driver does not take it (any more): it is built and replaced
        return None


def _compile(device: Device, source: str, who: str) -> Any:
    cl = opencl_module()
    try:
        # The bare program goes past pyopencl's own unbounded cache and its global lock file.
        bare = cl._cl._Program(device.context, source)
        return cl.Program(bare).build(OPTIONS)
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


def _save(program: Any, path: Path) -> None:
    cl = opencl_module()
    try:
        (binary,) = program.get_info(cl.program_info.BINARIES)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(binary)
        Path(temporary).replace(path)
        _prune(path.parent)
    except OSError:  # a full or read-only disk only costs the next process a build
        return


def _prune(place: Path) -> None:
    bound = config.get("cache-size-mb") << 20
    entries = []
    for path in place.glob("*.bin"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process removed it
            continue
        entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= bound:
            break
        path.unlink(missing_ok=True)
        total -= size
