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
#: Called by ctypes, which raises what is pending after it.
_pending: Final = ctypes.pythonapi.PyErr_Occurred
_pending.restype = None
_raised: Final[list[BaseException]] = []


class Guard(torch._C._acc.DeviceGuard):
    """Says which device type it is for."""

    def type_(self) -> Any:
        try:
            _pending()  # nothing may come before it
        except BaseException as error:  # which the backward pass raises
            _raised.append(error)
        return _PRIVATE


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
