"""An OpenCL context does not survive a fork: what would hang in the child raises there.

Nor do other threads, and a lock that one of them holds is never released in the child.
"""

from __future__ import annotations

import contextlib
import logging  # noqa: F401 - its hook takes a lock that loading needs; of hooks the last is first
import os
import threading
from typing import Any, Final, NoReturn, final

from netcl_core.errors import DeviceError, message

#: Classes, and which of their methods need the driver.
_methods: Final[list[tuple[type, tuple[str, ...]]]] = []
_opened: Final[list[bool]] = []
_forked: Final[list[bool]] = []
#: Seconds that a fork waits for other threads.
_PATIENCE: Final = 5.0
_REMEDY: Final = "Start processes by 'spawn' or 'forkserver'"


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


def wait_for(what: str, *owners: Any) -> None:
    """Let a fork wait until no other thread holds the `lock` of these, which is one.

    `what` says what it is held for. If that takes longer than a few seconds, whoever takes the lock
    in the child gets a DeviceError.
    """
    lock = owners[0].lock

    def in_parent() -> None:
        with contextlib.suppress(RuntimeError):  # it was waited for in vain
            lock.release()

    def in_child() -> None:
        try:
            lock.release()
        except RuntimeError:
            for owner in owners:
                owner.lock = _Lost(what)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lambda: lock.acquire(timeout=_PATIENCE),
            after_in_parent=in_parent,
            after_in_child=in_child,
        )


@final
class _Lost:
    """A lock that nobody will release: who would wait for it gets a DeviceError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        given = f"this process was forked while another thread was {self._what}"
        raise DeviceError(message("netcl", given, "a process of its own", _REMEDY))

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""


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
    remedy = f"{_REMEDY}, or use the device 'numpy' in this one"
    raise DeviceError(message("device", given, "a process of its own", remedy))
