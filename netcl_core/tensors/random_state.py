"""Random numbers: one seed per process, for the host and for kernels.

The host has a NumPy generator. A kernel gets a state, the seed and a running
number, and derives each element's random bits from these and the element's
index (a counter-based generator): the result depends neither on the device nor
on the order of the work-items.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import AttributeValueError, GradientError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.recording import on_replay, refuse_in_capture, uncaptured
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor

_STATE: Final = DTYPES["int64"]
_lock: Final = threading.Lock()
#: The bytes of a state's numbers: seed and count, and then those of NumPy's generator, PCG64.
_WIDTHS: Final = (8, 8, 16, 16, 1, 4)


class _Process:
    """The process's seed, the number of states given out, and the host's generator."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.count = 0
        self.generator = np.random.default_rng(seed)


_process = _Process(int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1)))


def manual_seed(seed: int) -> None:
    """Start all random numbers of this process anew from a seed, 0 <= seed < 2^63.

    >>> nc.manual_seed(0)
    >>> first = nc.host_generator().integers(100)
    >>> nc.manual_seed(0)
    >>> bool(nc.host_generator().integers(100) == first)
    True
    """
    global _process
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise AttributeValueError(message("manual_seed", f"{seed!r}", "an int, 0 <= seed < 2**63"))
    with _lock:
        _process = _Process(int(seed))
    on_replay(partial(manual_seed, seed))


def get_rng_state() -> Tensor:
    """All that the next random numbers of this process depend on, for `set_rng_state`.

    >>> state = nc.get_rng_state()
    >>> first = nc.host_generator().integers(1000)
    >>> nc.set_rng_state(state)
    >>> bool(nc.host_generator().integers(1000) == first)
    True

    A uint8 tensor, as PyTorch's. `nc.save` writes it.
    """
    with _lock:
        held: Any = _process.generator.bit_generator.state
        row = (_process.seed, _process.count, *held["state"].values(), held["has_uint32"],
               held["uinteger"])  # fmt: skip
    data = b"".join(x.to_bytes(n, "little") for x, n in zip(row, _WIDTHS, strict=True))
    return Tensor.from_host(np.frombuffer(data, np.uint8))


def set_rng_state(new_state: Any) -> None:
    """Go on with the random numbers from where `get_rng_state` was called.

    >>> state = nc.get_rng_state()
    >>> first = nc.rand(2).tolist()
    >>> nc.set_rng_state(state)
    >>> nc.rand(2).tolist() == first
    True

    Raises AttributeValueError for anything else than what it returned.
    """
    global _process
    given = new_state.to_host() if isinstance(new_state, Tensor) else np.asarray(new_state)
    if given.dtype != np.uint8 or given.shape != (sum(_WIDTHS),):
        text = f"an array of {given.dtype} of shape {given.shape}"
        raise AttributeValueError(message("set_rng_state", text, "what get_rng_state() returned"))
    file = io.BytesIO(given.tobytes())
    seed, count, state, inc, has_uint32, uinteger = (
        int.from_bytes(file.read(n), "little") for n in _WIDTHS
    )
    made = _Process(seed)
    made.count = count
    made.generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }
    with _lock:
        _process = made


def host_generator() -> np.random.Generator:
    """NumPy's generator of this process, which `manual_seed` resets.

    Raises ReplayError inside a capture.
    """
    given = "the host draws random numbers, which would be the same at each replay"
    refuse_in_capture("host_generator", given, "Draw them before, as an input of the graph")
    return _process.generator


@final
class Drawn:
    """The numbers of a state: the seed, and one never used before."""

    __slots__ = ("numbers",)

    numbers: Array

    def __init__(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Take fresh ones."""
        with _lock:
            number = _process.count
            _process.count += 1
            self.numbers = np.array([_process.seed, number], np.int64)


def random_state(device: Device) -> Tensor:
    """A fresh state for one kernel; what ops call is `tape.tracing.random_state`.

    Each replay of a capture overwrites it with another fresh one.
    """
    state = _again() if _thread.again is not None else Drawn()
    if _thread.notes is not None:
        _thread.notes.append(state)
    with uncaptured():
        made = Tensor.from_host(state.numbers, device)
    if _thread.again is None:
        on_replay(state.draw)
    on_replay(lambda: stream_of(device).write(made.buffer, state.numbers, _STATE))
    return made


def _again() -> Drawn:
    assert _thread.again is not None  # asked there only
    given = next(_thread.again, None)
    if given is None:
        text = "a function that draws more random numbers the second time"
        raise GradientError(message("random_state", text, "as many as the first time"))
    return given


class _Thread(threading.local):
    """Where the states that this thread is given are noted, and which it is given again."""

    notes: list[Drawn] | None = None
    again: Iterator[Drawn] | None = None


_thread = _Thread()


@contextmanager
def noted(notes: list[Drawn]) -> Iterator[None]:
    """Append the states that this thread is given to a list."""
    outer, _thread.notes = _thread.notes, notes
    try:
        yield
    finally:
        if outer is not None:
            outer += notes
        _thread.notes = outer


@contextmanager
def given_again(notes: list[Drawn]) -> Iterator[None]:
    """Give this thread the states of a list again; asking for more raises GradientError."""
    outer, _thread.again = _thread.again, iter(notes)
    try:
        yield
    finally:
        _thread.again = outer
