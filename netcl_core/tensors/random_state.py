"""Random numbers: one seed per process, for the host and for kernels.

The host has a NumPy generator. A kernel gets a state, the seed and a running
number, and derives each element's random bits from these and the element's
index (a counter-based generator): the result depends neither on the device nor
on the order of the work-items.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

import numpy as np

from netcl_core.device.device import Device
from netcl_core.errors import AttributeValueError, GradientError, message
from netcl_core.tensors.tensor import Tensor

_lock: Final = threading.Lock()
#: The seed and the running number of a state.
_State: TypeAlias = tuple[int, int]


class _Process:
    """The process's seed, the number of states given out, and the host's generator."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.count = 0
        self.generator = np.random.default_rng(seed)


_process = _Process(int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1)))


def manual_seed(n: int) -> None:
    """Start all random numbers of this process anew from a seed, 0 <= n < 2^63.

    >>> nc.manual_seed(0)
    >>> first = nc.host_generator().integers(100)
    >>> nc.manual_seed(0)
    >>> bool(nc.host_generator().integers(100) == first)
    True
    """
    global _process
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 <= n < 2**63:
        raise AttributeValueError(message("manual_seed", f"{n!r}", "an int, 0 <= n < 2**63"))
    with _lock:
        _process = _Process(int(n))


def host_generator() -> np.random.Generator:
    """NumPy's generator of this process, which `manual_seed` resets."""
    return _process.generator


def random_state(device: Device) -> Tensor:
    """A fresh state for one kernel; what ops call is `tape.tracing.random_state`."""
    if _thread.again is not None:
        given = next(_thread.again, None)
        if given is None:
            text = "a function that draws more random numbers the second time"
            raise GradientError(message("random_state", text, "as many as the first time"))
    else:
        with _lock:
            given = _process.seed, _process.count
            _process.count += 1
    if _thread.notes is not None:
        _thread.notes.append(given)
    return Tensor.from_host(np.array(given, np.int64), device)


class _Thread(threading.local):
    """Where the states that this thread is given are noted, and which it is given again."""

    notes: list[_State] | None = None
    again: Iterator[_State] | None = None


_thread = _Thread()


@contextmanager
def noted(notes: list[_State]) -> Iterator[None]:
    """Append the states that this thread is given to a list."""
    outer, _thread.notes = _thread.notes, notes
    try:
        yield
    finally:
        if outer is not None:
            outer += notes
        _thread.notes = outer


@contextmanager
def given_again(notes: list[_State]) -> Iterator[None]:
    """Give this thread the states of a list again; asking for more raises GradientError."""
    outer, _thread.again = _thread.again, iter(notes)
    try:
        yield
    finally:
        _thread.again = outer
