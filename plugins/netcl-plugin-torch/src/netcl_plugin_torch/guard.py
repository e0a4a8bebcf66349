"""The device guard, and errors in the threads in which PyTorch computes gradients.

Where Python raises in such a thread, PyTorch's C++ asks the guard for its type while the error is
still pending. A Python function cannot run then, and PyTorch ends the process. So the guard takes
the error aside, and the call of the backward pass raises it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import torch

_PRIVATE: Final = torch._C._autograd.DeviceType.PrivateUse1
_kind, _error, _traceback = (ctypes.c_void_p() for _ in range(3))
#: Without types of arguments: to convert them would look at the pending error.
_fetch: Final = ctypes.pythonapi["PyErr_Fetch"]
_fetch.restype = None
_first, _second, _third = (ctypes.byref(slot) for slot in (_kind, _error, _traceback))
_raised: Final[list[BaseException]] = []


class Guard(torch._C._acc.DeviceGuard):
    """Says which device type it is for."""

    def type_(self) -> Any:
        _fetch(_first, _second, _third)  # nothing may come before it
        if _kind.value is not None:
            _note()
        return _PRIVATE


def _note() -> None:
    """Keep the error that was pending."""
    kind, error, traceback = (_taken(slot) for slot in (_kind, _error, _traceback))
    if not isinstance(error, BaseException):
        error = kind(error) if error is not None else kind()
    _raised.append(error if traceback is None else error.with_traceback(traceback))


def _taken(holder: ctypes.c_void_p) -> Any:
    """The object that a pointer owns, which it no longer does."""
    if holder.value is None:
        return None
    item = ctypes.cast(holder, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.py_object(item))
    holder.value = None
    return item


def raising(run: Any) -> Any:
    """PyTorch's call of a backward pass, with the errors that the guard has taken aside."""

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        _raised.clear()
        try:
            return run(*args, **kwargs)
        except SystemError:
            if not _raised:
                raise
            error = _raised.pop()
        raise error

    return run_backward
