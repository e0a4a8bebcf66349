"""The lock file that the program insists on by `nc.require_lock`, and its digest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from netcl_core.errors import message
from netcl_core.plugins.protocol import content_of, plugin_error, required_locks

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
    required_locks.clear()
    required_locks.append(path)


def read_lock(path: Path) -> bytes:
    """The content of a lock file; raises PluginError NP513 if it is not the required one."""
    held = next((required for required in _required if required.path == path), None)
    if held is None:
        return content_of(path)
    try:
        data = content_of(path)
    except OSError as error:
        raise _unmet(path, error.strerror or type(error).__name__, "a lock file") from error
    import hashlib  # brings OpenSSL, which most processes do without

    digest = hashlib.sha256(data).hexdigest()
    if held.sha256 not in ("", digest):
        raise _unmet(path, f"its sha256 is {digest}", held.sha256)
    return data


def _unmet(path: Path, given: str, expected: str) -> Exception:
    return plugin_error("NP513", message(f"nc.require_lock({str(path)!r})", given, expected))
