"""Recording: what one thread asks of a device is done and taken down, to be done again.

A `Recording` is the stream that takes it down. What must not be done again as it was, such as
drawing the same random numbers, says so: `on_replay` runs a function at its place and
`before_replay` one that may refuse it, `check_data` looks at new data, `uncaptured` does something
once, and `refuse_in_capture` says that it cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import get_ident
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.dtypes import Dtype
from netcl_core.errors import ReplayError, message
from netcl_core.hardware.device import Device, opencl_module
from netcl_core.runtime.commands import (
    CallCommand,
    Command,
    CopyCommand,
    FillCommand,
    HostCommand,
    LaunchCommand,
    WriteCommand,
    identity,
)
from netcl_core.runtime.memory import memory_of_graph
from netcl_core.runtime.numpy_stream import NumpyStream
from netcl_core.runtime.opencl_stream import Launch, OpenCLStream
from netcl_core.runtime.stream import Stream, StreamWrapper, stream_of, use_stream

#: A check of data, its operands, and its settings.
Check: TypeAlias = tuple[Callable[[Sequence[Any], Any], None], Sequence[Any], Any]
#: By thread. Empty almost always, which is all that a hot path asks.
recordings: Final[dict[int, Recording]] = {}


@final
class Recording(StreamWrapper):
    """A stream that takes down what it is asked for, and does it.

    Its memory is its own: what is freed meanwhile is used again here and nowhere else, so a
    command that is done again later finds it as it was.

    Attributes:
        commands: What was asked for, in order.
        conditions: What each replay has to pass first.
        checks: What was checked of data.
        changed: The tensors that were changed in place, by their identity.
        leaves: The leaves that got a gradient, with the one that they had before, likewise.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(stream_of(device))
        self._memory: Stream = NumpyStream(device)
        if device.has_kernels:
            self._memory = OpenCLStream(device, memory_of_graph(device))
        self._made: dict[int, Any] = {}
        self.commands: list[Command] = []
        self.conditions: list[Callable[[], Any]] = []
        self.checks: list[Check] = []
        self.changed: dict[int, Any] = {}
        self.leaves: dict[int, Any] = {}

    def made(self, buffer: Any) -> bool:
        """Whether a buffer was allocated here."""
        return identity(buffer) in self._made

    def _held(self, buffers: Sequence[Any]) -> list[Any]:
        """What keeps the memory of buffers, and not from being used again here."""
        return [self._made.get(identity(buffer), buffer) for buffer in buffers]

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self._memory.allocate(size, dtype)
        key = identity(buffer)
        if buffer is not None and key not in self._made:
            pooled = self.device.has_kernels
            handle = opencl_module().Buffer.from_int_ptr(key, True) if pooled else buffer
            self._made[key] = handle
        return buffer

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.commands.append(LaunchCommand(self._held(buffers), launch, scalars))
        self.inner.launch(launch, buffers, scalars)

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        buffer = self.allocate(array.size, dtype)
        self.write(buffer, array, dtype)
        return buffer

    def write(self, buffer: Any, array: np.ndarray[Any, Any], dtype: Dtype) -> None:
        if array.size:
            kept = np.array(array, dtype.numpy, copy=True, order="C")
            self.commands.append(WriteCommand(self._held([buffer]), kept, dtype))
        self.inner.write(buffer, array, dtype)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        raise _no_reading("the host reads a tensor's values")

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        if size:
            self.commands.append(CopyCommand(self._held([target, source]), size, dtype))
        self.inner.copy(target, source, size, dtype)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        if size:
            self.commands.append(FillCommand(self._held([buffer]), size, dtype, value))
        self.inner.fill(buffer, size, dtype, value)

    def host_call(
        self,
        run: Callable[..., None],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        forms: Sequence[tuple[tuple[int, ...], Any]],
    ) -> None:
        held = self._held([*inputs, *outputs])
        self.commands.append(HostCommand(held, len(inputs), run, forms))
        self.inner.host_call(run, inputs, outputs, forms)


@contextmanager
def recording(device: Device, who: str) -> Iterator[Recording]:
    """Take down what this thread asks of a device; raises ReplayError inside another capture."""
    refuse_in_capture(who, "a capture inside a capture", "Leave the other one first")
    made = Recording(device)
    with use_stream(made):
        recordings[get_ident()] = made
        try:
            yield made
        finally:
            del recordings[get_ident()]


def capturing() -> bool:
    """Whether a capture is under way in this thread.

    >>> seen = []
    >>> graph = ag.capture(lambda x: seen.append(nc.capturing()) or x * 2, nc.tensor([1.0]))
    >>> seen, nc.capturing()
    ([True], False)

    It is for what reads values to decide something and can let the device decide it instead.
    """
    return bool(recordings) and get_ident() in recordings


def made_before(buffer: Any) -> bool:
    """Whether a capture is under way in this thread, and a buffer is from before it."""
    found = recordings.get(get_ident()) if recordings else None
    return found is not None and not found.made(buffer)


def on_replay(function: Callable[[], Any]) -> None:
    """Let a capture that is under way in this thread call a function at each replay.

    >>> seen = []
    >>> x = nc.tensor([1.0, 2.0])
    >>> graph = ag.capture(lambda x: nc.on_replay(lambda: seen.append("again")) or x * 2, x)
    >>> graph(x).numpy(), seen
    (array([2., 4.], dtype=float32), ['again'])

    It is for what goes on with every step on the host, such as a count. The function runs at its
    place among the commands; what it asks of a device comes there too. Without a capture nothing
    happens.
    """
    found = recordings.get(get_ident()) if recordings else None
    if found is not None:
        found.commands.append(CallCommand(function))


def before_replay(condition: Callable[[], Any]) -> None:
    """Let a capture that is under way in this thread call a function before each replay.

    >>> rates = {"lr": 0.1}
    >>> def unchanged():
    ...     if rates != {"lr": 0.1}:
    ...         raise ValueError("the rates are those of the capture no longer")
    >>> graph = ag.capture(lambda x: nc.before_replay(unchanged) or x * 0.1, nc.tensor([1.0]))
    >>> rates["lr"] = 0.2
    >>> graph([1.0])
    Traceback (most recent call last):
    ValueError: the rates are those of the capture no longer

    It is for what a step takes for granted on the host: what the function raises refuses the
    replay, of which nothing has been done then. Without a capture nothing happens.
    """
    found = recordings.get(get_ident()) if recordings else None
    if found is not None:
        found.conditions.append(condition)


@contextmanager
def uncaptured() -> Iterator[None]:
    """Do something once: a capture that is under way in this thread does not take it down.

    >>> def step(x):
    ...     with nc.uncaptured():
    ...         offset = nc.Tensor.full((2,), float(x.numpy().max()))
    ...     return x + offset
    >>> graph = ag.capture(step, nc.tensor([1.0, 2.0]))
    >>> graph(nc.tensor([10.0, 20.0])).numpy()  # the largest is that of the capture
    array([12., 22.], dtype=float32)

    It is for what must outlast a step and be there before the first, such as an optimizer's state,
    and for looking at values. Without a capture nothing changes.
    """
    thread = get_ident()
    found = recordings.pop(thread, None) if recordings else None
    if found is None:
        yield
        return
    with ExitStack() as stack:
        stack.callback(recordings.__setitem__, thread, found)
        stack.enter_context(use_stream(found.inner))
        yield


def check_data(
    check: Callable[[Sequence[Any], Any], None], operands: Sequence[Any], settings: Any
) -> None:
    """`check(operands, settings)` raises if it does not like data; a replay asks it again.

    >>> def positive(operands, least):
    ...     if operands[0].numpy().min() <= least:
    ...         raise ValueError("log: a number that is not positive")
    >>> def step(x):
    ...     ag.check_data(positive, [x], 0.0)
    ...     return ag.log(x)
    >>> graph = ag.capture(step, nc.tensor([1.0, 1.0]))
    >>> graph([1.0, -1.0])
    Traceback (most recent call last):
    ValueError: log: a number that is not positive

    A replay asks with the inputs of then, before anything else is done, and does not ask where no
    operand is an input. What a check reads is no reading inside a capture.
    """
    found = recordings.get(get_ident()) if recordings else None
    if found is None:
        check(operands, settings)
        return
    found.checks.append((check, tuple(operands), settings))
    with uncaptured():
        check(operands, settings)


def refuse_in_capture(who: str, given: str, remedy: str) -> None:
    """Raise ReplayError if a capture is under way in this thread."""
    if capturing():
        raise ReplayError(message(who, given, "what can be done again as it is", remedy))


def refuse_reading(given: str) -> None:
    """The same for the values of tensors."""
    if capturing():
        raise _no_reading(given)


def _no_reading(given: str) -> ReplayError:
    remedy = "Read them after the capture, or what shall stay as it is now with nc.uncaptured()"
    expected = "work for the device alone: values cannot be read in a capture"
    return ReplayError(message("capture", given, expected, remedy))


def note_change(tensor: Any) -> None:
    """Let each replay count as a change of a tensor."""
    found = recordings.get(get_ident())
    if found is not None:
        found.changed[id(tensor)] = tensor


def note_gradient(leaf: Any) -> bool:
    """Note that a leaf gets a gradient; whether the one that it has is from before a capture.

    Then the capture begins without: a replay gives the gradient of one step.
    """
    found = recordings.get(get_ident())
    if found is None:
        return False
    found.leaves.setdefault(id(leaf), (leaf, leaf.grad))
    return leaf.grad is not None and not found.made(leaf.grad.value.memory)
