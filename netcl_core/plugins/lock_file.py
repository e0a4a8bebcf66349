"""The lock file `netcl.lock`: where it is, and whether it is strict; a market reads the rest."""

from __future__ import annotations

import errno
import functools
import json
from pathlib import Path
from typing import Final

from netcl_core import config

LOCK_FILE: Final = "netcl.lock"


#: The lock file that the program insists on, if it does; the market, which reads it, notes it here.
required_locks: Final[list[Path]] = []


def content_of(path: Path) -> bytes:
    """What a lock file holds; raises OSError for a device or a pipe, which may never end."""
    if path.is_char_device() or path.is_fifo():
        raise OSError(errno.EINVAL, "it is a device or a pipe")
    return path.read_bytes()


def lock_is_strict() -> bool:
    """Whether nothing may change what the lock file says: by a setting, the program or the file."""
    if required_locks or config.get("lock-strict") or config.get("plugins-strict"):
        return True
    if config.get("trust") == "signed":
        return True
    path = lock_file()
    return path is not None and _says_strict(path)


def lock_file() -> Path | None:
    """The lock file that holds for the working directory; None if there is none.

    The one that the program requires, else that of the setting `lock`, else the nearest strict
    `netcl.lock` in or above the working directory, else the nearest.
    A file that the setting names need not exist.
    """
    if required_locks:
        return required_locks[0]
    if switched_off():
        return None
    given: str | None = config.get("lock")
    return config.base_of("lock") / given if given else nearest_lock_file()


def switched_off() -> bool:
    """Whether no lock is to hold.

    A variable is the caller's word. A settings file is whatever lies nearest, so what it says
    counts only where nothing asks for a strict lock.
    """
    if config.get("lock") is not None:
        return False
    if config.by_variable("lock"):
        return True
    nearest = nearest_lock_file()
    strict = config.get("lock-strict") or config.get("plugins-strict")
    return not (strict or (nearest is not None and _says_strict(nearest)))


def nearest_lock_file() -> Path | None:
    """The `netcl.lock` in or above the working directory, whatever the setting says."""
    here = config.working_folder()
    places = (folder / LOCK_FILE for folder in (here, *here.parents))
    there = [path for path in places if path.is_file()]
    return next(filter(_says_strict, there), there[0] if there else None)


def _says_strict(path: Path) -> bool:
    try:
        stat = path.stat()
        return _strict(path, (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    except OSError:
        return False


@functools.lru_cache(maxsize=64)
def _strict(path: Path, stamp: tuple[int, ...]) -> bool:
    try:
        table = json.loads(content_of(path))
    except (OSError, ValueError, RecursionError):  # whoever reads all of it says so
        return False
    return isinstance(table, dict) and table.get("strict") is True
