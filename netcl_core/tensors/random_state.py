"""Random numbers: one seed per process, for the host and for kernels.

The host has a NumPy generator. A kernel gets a state, the seed and a running
number, and derives each element's random bits from these and the element's
index (a counter-based generator): the result depends neither on the device nor
on the order of the work-items.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Final

import numpy as np

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import AttributeValueError, message
from netcl_core.runtime.recording import on_replay, refuse_in_capture, uncaptured
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor

_STATE: Final = DTYPES["int64"]
_lock: Final = threading.Lock()


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
    on_replay(partial(manual_seed, n))


def host_generator() -> np.random.Generator:
    """NumPy's generator of this process, which `manual_seed` resets.

    Raises ReplayError inside a capture.
    """
    given = "the host draws random numbers, which would be the same at each replay"
    refuse_in_capture("host_generator", given, "Draw them before, as an input of the graph")
    return _process.generator


def random_state(device: Device) -> Tensor:
    """A fresh state for one kernel; what ops call is `tape.tracing.random_state`.

    Each replay of a capture overwrites it with another fresh one.
    """
    with uncaptured():
        made = Tensor.from_host(_draw(), device)
    on_replay(lambda: stream_of(device).write(made.buffer, _draw(), _STATE))
    return made


def _draw() -> Array:
    """The seed and a number never used before."""
    with _lock:
        number = _process.count
        _process.count += 1
        return np.array([_process.seed, number], np.int64)
