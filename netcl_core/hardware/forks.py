"""An OpenCL context does not survive a fork: what would hang in the child raises there."""

from __future__ import annotations

import os
import threading
from typing import Any, Final, NoReturn

from netcl_core.errors import DeviceError, message

#: Classes, and which of their methods need the driver.
_methods: Final[list[tuple[type, tuple[str, ...]]]] = []
_opened: Final[list[bool]] = []
_forked: Final[list[bool]] = []


def guard(kind: type, *names: str) -> None:
    """Let methods of a class raise in the forked children of a process that used OpenCL."""
    _methods.append((kind, names))


def looks(*owners: Any) -> None:
    """Let a child refuse OpenCL whose parent was forked while a thread held a `lock` of these.

    That thread, which was looking for devices, is not in the child; it would release nothing.
    """

    def in_child() -> None:
        for owner in owners:
            if not owner.lock.acquire(blocking=False):
                owner.lock = threading.RLock()
                _in_child()
            else:
                owner.lock.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)


def insist() -> None:
    """Raise DeviceError in a child that must not use OpenCL."""
    if _forked:
        _refuse()


def opened() -> None:
    """Note that this process makes an OpenCL context; raises DeviceError if it must not."""
    insist()
    if not _opened and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_in_child)
    _opened.append(True)


def _in_child() -> None:
    _forked.append(True)
    for kind, names in _methods:
        for name in names:
            setattr(kind, name, _refuse)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    given = "this process was forked from one that used OpenCL, whose contexts do not survive it"
    remedy = "Start processes by 'spawn' or 'forkserver', or use the device 'numpy' in this one"
    raise DeviceError(message("device", given, "a process of its own", remedy))
