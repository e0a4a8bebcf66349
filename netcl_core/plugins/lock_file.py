"""The lock file `netcl.lock`: where it is, and whether it is strict; a market reads the rest."""

from __future__ import annotations

import errno
import functools
import json
import re
from pathlib import Path
from typing import Final, NamedTuple

from netcl_core import config
from netcl_core.errors import message
from netcl_core.plugins.failures import plugin_error

LOCK_FILE: Final = "netcl.lock"
_SHA256: Final = re.compile("[0-9a-fA-F]{64}")


class _Required(NamedTuple):
    """The lock file that the program insists on, and the digest that it has to have."""

    path: Path
    sha256: str


_required: Final[list[_Required]] = []


def require(path: Path, sha256: str | None, late: bool) -> None:
    """Insist on a lock file; see `nc.require_lock`."""
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise _unmet(path, f"sha256={sha256!r}", "64 hexadecimal digits")
    required = _Required(path, (sha256 or "").lower())
    if required not in _required:
        if _required:
            raise _unmet(path, f"{_required[0].path} is required already", "one lock file")
        if late:
            raise _unmet(path, "plugins have been looked up already", "the call before any op")
    before, _required[:] = [*_required], [required]
    try:
        read_lock(path)
    except BaseException:
        _required[:] = before
        raise


def read_lock(path: Path) -> bytes:
    """The content of a lock file; raises PluginError NP513 if it is not the required one."""
    held = next((required for required in _required if required.path == path), None)
    if held is None:
        return _content(path)
    try:
        data = _content(path)
    except OSError as error:
        raise _unmet(path, error.strerror or type(error).__name__, "a lock file") from error
    import hashlib  # brings OpenSSL, which most processes do without

    digest = hashlib.sha256(data).hexdigest()
    if held.sha256 not in ("", digest):
        raise _unmet(path, f"its sha256 is {digest}", held.sha256)
    return data


def _content(path: Path) -> bytes:
    if path.is_char_device() or path.is_fifo():  # which may never end
        raise OSError(errno.EINVAL, "it is a device or a pipe")
    return path.read_bytes()


def _unmet(path: Path, given: str, expected: str) -> Exception:
    return plugin_error("NP513", message(f"nc.require_lock({str(path)!r})", given, expected))


def lock_is_strict() -> bool:
    """Whether nothing may change what the lock file says: by a setting, the program or the file."""
    if _required or config.get("lock-strict") or config.get("plugins-strict"):
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
    if _required:
        return _required[0].path
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
        table = json.loads(_content(path))
    except (OSError, ValueError, RecursionError):  # whoever reads all of it says so
        return False
    return isinstance(table, dict) and table.get("strict") is True
