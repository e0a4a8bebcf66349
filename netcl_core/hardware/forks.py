"""An OpenCL context does not survive a fork: what would hang in the child raises there."""

from __future__ import annotations

import os
from typing import Any, Final, NoReturn

from netcl_core.errors import DeviceError, message

#: Classes, and which of their methods need the driver.
_methods: Final[list[tuple[type, tuple[str, ...]]]] = []
_opened: Final[list[bool]] = []
_forked: Final[list[bool]] = []


def guard(kind: type, *names: str) -> None:
    """Let methods of a class raise in the forked children of a process that used OpenCL."""
    _methods.append((kind, names))


def opened() -> None:
    """Note that this process makes an OpenCL context; raises DeviceError if it must not."""
    if _forked:
        _refuse()
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
