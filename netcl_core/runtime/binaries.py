"""Built programs on disk: one file each, in a folder that stays below its bound.

An entry is written to a temporary file and then renamed, so that processes never see half
of one; the least recently used ones go when the folder exceeds its bound.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from netcl_core import config

#: Seconds after which a file that was being written belongs to a process that is no more.
_ABANDONED_S: Final = 3600
#: The bytes that this process may still write before it looks at the folder's size again.
_room: dict[Path, int] = {}


def folder() -> Path:
    """The folder of the entries (it need not exist yet)."""
    return config.cache_root() / "programs"


def read(name: str) -> bytes | None:
    """The entry of a name, now the most recently used; None if there is none to be read."""
    path = _path(name)
    try:
        binary = path.read_bytes()
        os.utime(path)
    except OSError:  # not there, or not ours: it is built
        return None
    return binary


def write(name: str, binary: bytes) -> None:
    """Keep an entry; a disk that is full or read-only only costs the next process a build."""
    path = _path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, binary)
        _room[path.parent] = _room.get(path.parent, 0) - len(binary)
        if _room[path.parent] < 0:
            _room[path.parent] = prune(path.parent)
    except OSError:
        return


def _path(name: str) -> Path:
    return folder() / f"{name}.bin"


def _replace(path: Path, binary: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    aside = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(binary)
        aside.replace(path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def prune(place: Path) -> int:
    """Bring a folder below its bound; returns the bytes that may be written before the next time.

    That is part of the room that is left, since other processes write there too.
    """
    bound = config.get("cache-size-mb") << 20
    _clear_abandoned(place)
    entries = sorted(_entries(place))
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries:
        if total <= bound:
            break
        path.unlink(missing_ok=True)
        total -= size
    return int(max(0, bound - total) // 8)


def _entries(place: Path) -> Iterator[tuple[float, int, Path]]:
    """When each entry was used last, its size and its path."""
    for path in place.glob("*.bin"):
        try:
            status = path.stat()
        except FileNotFoundError:  # another process removed it
            continue
        yield status.st_mtime, status.st_size, path


def _clear_abandoned(place: Path) -> None:
    """Remove what processes that ended while they wrote have left behind."""
    oldest = time.time() - _ABANDONED_S
    for path in place.glob("*.tmp"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError:  # it has just become an entry, or is somebody else's
            continue
