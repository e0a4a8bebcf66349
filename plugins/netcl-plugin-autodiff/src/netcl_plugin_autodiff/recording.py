"""Which managers record in a thread, and which tensors need a gradient because of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final


class _RecordingThread(threading.local):
    """The managers that record in this thread, in the order in which they began."""

    def __init__(self) -> None:
        self.recording: list[Any] = []
        self.backwarding: Any = None


thread: Final = _RecordingThread()


def get_backwarding_grad_manager() -> Any:
    """The GradManager whose `backward` is running in this thread, for callbacks; else None.

    >>> autodiff.get_backwarding_grad_manager() is None
    True
    """
    return thread.backwarding


#: By identity: a tensor, how many managers track it, and whether it needed a gradient before.
_tracked: Final[dict[int, tuple[Any, int, bool]]] = {}
_lock: Final = threading.Lock()


def track(tensor: Any) -> None:
    """Let operations on a leaf be recorded, until `forget` has been called as often."""
    with _lock:
        _, count, before = _tracked.get(id(tensor), (tensor, 0, tensor.requires_grad))
        _tracked[id(tensor)] = tensor, count + 1, before
        tensor.requires_grad_(True)


def forget(tensors: Iterable[Any]) -> None:
    """Leave each tensor as it was before the first manager tracked it, with the last one."""
    with _lock:
        for tensor in tensors:
            _, count, before = _tracked.pop(id(tensor))
            if count > 1:
                _tracked[id(tensor)] = tensor, count - 1, before
            else:
                tensor.requires_grad_(before)
