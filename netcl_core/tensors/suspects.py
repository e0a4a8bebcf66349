"""Checks of data that wait until a NaN is read, so that no step waits for the device."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netcl_core.tensors.host_data import Array


class _Waiting(threading.local):
    """The last check of this thread, with the tensors that it will look at while they live."""

    check: tuple[Callable[[Sequence[Any]], None], list[weakref.ref[Any]]] | None = None


_waiting = _Waiting()


def check_at_nan(check: Callable[[Sequence[Any]], None], operands: Sequence[Any]) -> None:
    """Let `check(operands)` raise for wrong data once this thread reads a NaN from a tensor.

    Example:
        >>> def positive(operands):
        ...     if operands[0].numpy().min() < 0:
        ...         raise ValueError("log: a number below 0")
        >>> x = nc.tensor([1.0, -1.0])
        >>> ag.check_at_nan(positive, [x])
        >>> ag.log(x).sum().item()
        Traceback (most recent call last):
        ValueError: log: a number below 0

    Only the last one counts, and it keeps no tensor alive.
    """
    _waiting.check = check, [weakref.ref(operand) for operand in operands]


def look(array: Array) -> None:
    """Run the check that waits, if there is a NaN in what was read."""
    if _waiting.check is None:
        return
    check, references = _waiting.check
    operands = [reference() for reference in references]
    gone = any(operand is None for operand in operands)
    if gone or (array.dtype.kind in "fV" and np.isnan(array).any()):
        _waiting.check = None
        if not gone:
            check(operands)
