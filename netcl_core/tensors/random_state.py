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
from netcl_core.hardware.device_table import get_device
from netcl_core.runtime.recording import on_replay, refuse_in_capture, uncaptured
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor

_STATE: Final = DTYPES["int64"]
_lock: Final = threading.Lock()
#: The bytes of a state's numbers: seed and count, and then those of NumPy's generator, PCG64.
_WIDTHS: Final = (8, 8, 16, 16, 1, 4)


class Generator(np.random.Generator):
    """Random numbers of their own: a seed, the states given to kernels, and NumPy's generator.

    >>> generator = nc.Generator().manual_seed(3)
    >>> first = nc.rand(2, generator=generator)
    >>> nc.manual_seed(3) is nc.default_generator
    True
    >>> nc.rand(2).tolist() == first.tolist()
    True

    All ops that draw take it as `generator=`, and so do data sets, loaders and samplers. It serves
    all devices; `device` is what it was made with.
    """

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(np.random.PCG64())
        self._device = device
        self.seed()

    @property
    def device(self) -> Device:
        """The device of the name that it was made with."""
        return get_device(self._device)

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew from a seed, 0 <= seed < 2^63; returns itself."""
        whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
        if not whole or not 0 <= seed < 2**63:
            expected = "an int, 0 <= seed < 2**63"
            raise AttributeValueError(message("manual_seed", f"{seed!r}", expected))
        with _lock:
            self._seed, self._count = int(seed), 0
            self.bit_generator.state = np.random.PCG64(self._seed).state
        on_replay(partial(self.manual_seed, seed))
        return self

    def seed(self) -> int:
        """Begin anew from a seed that nobody knows, and return it."""
        drawn = np.random.SeedSequence().generate_state(1, np.uint64)[0]
        return self.manual_seed(int(drawn >> np.uint64(1))).initial_seed()

    def initial_seed(self) -> int:
        """The seed that it began from."""
        return self._seed

    def numbers(self) -> Array:
        """The seed and a number never used before: a state for one kernel."""
        with _lock:
            self._count += 1
            return np.array([self._seed, self._count - 1], np.int64)

    def get_state(self) -> Tensor:
        """All that the next numbers depend on, for `set_state`: a uint8 tensor."""
        with _lock:
            held: Any = self.bit_generator.state
            row = (self._seed, self._count, *held["state"].values(), held["has_uint32"],
                   held["uinteger"])  # fmt: skip
        data = b"".join(x.to_bytes(n, "little") for x, n in zip(row, _WIDTHS, strict=True))
        return Tensor.from_host(np.frombuffer(data, np.uint8))

    def set_state(self, new_state: Any) -> None:
        """Go on from a state; raises AttributeValueError for what is none."""
        given = new_state.to_host() if isinstance(new_state, Tensor) else np.asarray(new_state)
        if given.dtype != np.uint8 or given.shape != (sum(_WIDTHS),):
            text = f"an array of {given.dtype} of shape {given.shape}"
            raise AttributeValueError(message("set_rng_state", text, "what get_rng_state() gave"))
        file = io.BytesIO(given.tobytes())
        seed, count, state, inc, has_uint32, uinteger = (
            int.from_bytes(file.read(n), "little") for n in _WIDTHS
        )
        with _lock:
            self._seed, self._count = seed, count
            self.bit_generator.state = {
                "bit_generator": "PCG64",
                "state": {"state": state, "inc": inc},
                "has_uint32": has_uint32,
                "uinteger": uinteger,
            }

    def __reduce__(self) -> Any:
        return _restored, (self.get_state().to_host(),)


def _restored(state: Array) -> Generator:
    generator = Generator()
    generator.set_state(state)
    return generator


default_generator: Final = Generator()


def manual_seed(seed: int) -> Generator:
    """Start all random numbers of this process anew from a seed, 0 <= seed < 2^63.

    >>> nc.manual_seed(0)
    Generator(PCG64) at ...
    >>> first = nc.host_generator().integers(100)
    >>> generator = nc.manual_seed(0)
    >>> bool(nc.host_generator().integers(100) == first)
    True

    Returns the process's generator, `nc.default_generator`.
    """
    return default_generator.manual_seed(seed)


def host_generator() -> np.random.Generator:
    """NumPy's generator of this process, which `manual_seed` resets.

    >>> _ = nc.manual_seed(3)
    >>> first = nc.host_generator().random()
    >>> _ = nc.manual_seed(3)
    >>> first == nc.host_generator().random()
    True

    Raises ReplayError inside a capture.
    """
    given = "the host draws random numbers, which would be the same at each replay"
    refuse_in_capture("host_generator", given, "Draw them before, as an input of the graph")
    return default_generator


@final
class Drawn:
    """The numbers of a state: the seed, and one never used before."""

    __slots__ = ("generator", "numbers")

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.draw()

    def draw(self) -> None:
        """Take fresh ones."""
        self.numbers = self.generator.numbers()


def random_state(device: Device, generator: Generator | None = None) -> Tensor:
    """A fresh state for one kernel; what ops call is `tape.tracing.random_state`.

    Each replay of a capture overwrites it with another fresh one.
    """
    state = _again() if _thread.again is not None else Drawn(generator or default_generator)
    if _thread.notes is not None:
        _thread.notes.append(state)
    with uncaptured():
        tensor = Tensor.from_host(state.numbers, device)
    if _thread.again is None:
        on_replay(state.draw)
    on_replay(lambda: stream_of(device).write(tensor.buffer, state.numbers, _STATE))
    return tensor


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
