"""Built OpenCL programs: kept in memory and on disk.

The key on disk is the sha256 of the source, the build options, the platform, the device
and its driver version.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from netcl_core import config
from netcl_core.device import compiler
from netcl_core.device.device import Device, opencl_module
from netcl_core.errors import BuildError, message
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
    binary = read_binary(name) if kept else None
    program = None if binary is None else _loaded(device, binary)
    if program is not None:
        return program
    program = _compile(device, source, who)
    (binary,) = program.get_info(opencl_module().program_info.BINARIES)
    if kept:
        write_binary(name, binary)
    return _lean(device, program, binary)


def _loaded(device: Device, binary: bytes) -> Any:
    """The program of a binary; None if this driver does not take it (any more)."""
    cl = opencl_module()
    try:
        program = cl._cl._Program(device.context, [device.cl_device], [binary])
        program._build(options=b"", devices=None)
        return program
    except cl.Error:
        return None


def _lean(device: Device, program: Any, binary: bytes) -> Any:
    """A program without what its compiler remembers of it, where that is the host's memory.

    Intel's runtime keeps 3 MB for each program that it compiled, and 8 KB for the same
    program from its binary. A simulator's binary is no program of its own. What counts is the
    hardware: a test may let a CPU play a GPU.
    """
    assert device.cl_device is not None  # it has just built the program
    on_host = device.cl_device.type & opencl_module().device_type.CPU
    if not on_host or device.simulator:
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


#: The bytes that this process may still write before it looks at the folder's size again.
_room: dict[Path, int] = {}


def folder() -> Path:
    """The folder of the entries (it need not exist yet)."""
    return config.cache_root() / "programs"


def read_binary(name: str) -> bytes | None:
    """The entry of a name, now the most recently used; None if there is none to be read."""
    path = _path(name)
    try:
        binary = path.read_bytes()
        os.utime(path)
    except OSError:  # not there, or not ours: it is built
        return None
    return binary


def write_binary(name: str, binary: bytes) -> None:
    """Keep an entry; a disk that is full or read-only only costs the next process a build."""
    path = _path(name)
    try:
        config.write_whole(path, binary)
        _room[path.parent] = _room.get(path.parent, 0) - len(binary)
        if _room[path.parent] < 0:
            _room[path.parent] = prune(path.parent)
    except OSError:
        return


def _path(name: str) -> Path:
    return folder() / f"{name}.bin"


def prune(place: Path) -> int:
    """Bring a folder below its bound; returns the bytes that may be written before the next time.

    That is part of the room that is left, since other processes write there too.
    """
    bound = config.get("cache-size-mb") << 20
    entries = sorted(_entries(place))
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries:
        if total <= bound:
            break
        path.unlink(missing_ok=True)
        total -= size
    return int(max(0, bound - total) // 8)


def _entries(place: Path) -> Iterator[tuple[float, int, Path]]:
    """When each entry was used last, its size and its path.

    So too what is being written: what a process left behind when it ended becomes the oldest.
    """
    for path in (*place.glob("*.bin"), *place.glob("*.tmp")):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process removed it
            continue
        yield status.st_mtime, status.st_size, path
