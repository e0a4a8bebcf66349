"""Recording: what one thread asks of a device is done and taken down, to be done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from netcl_core import Device
from netcl_core.inspect.captures import Check, captured_by, refuse_in_capture, refuse_reading
from netcl_core.inspect.data import Dtype
from netcl_core.inspect.streams import (
    Launch,
    NumpyStream,
    OpenCLStream,
    Stream,
    StreamWrapper,
    memory_of_graph,
    opencl_module,
    stream_of,
    use_stream,
)
from netcl_plugin_capture.commands import (
    CallCommand,
    Command,
    CopyCommand,
    FillCommand,
    HostCommand,
    LaunchCommand,
    WriteCommand,
    identity,
)


class Recording(StreamWrapper):
    """A stream that takes down what it is asked for, and does it.

    Its memory is its own: what is freed meanwhile is used again here and nowhere else, so a
    command that is done again later finds it as it was.

    Attributes:
        commands: What was asked for, in order.
        births: Of each buffer how many commands there were whenever it was allocated.
        conditions: What each replay has to pass first.
        checks: What was checked of data.
        changed: The tensors that were changed in place, by their identity.
        leaves: The leaves that got a gradient, with the one that they had before, likewise.
        memory: The stream that allocates; while it lives the device counts what it holds.
    """

    leaves: dict[int, Any]

    def __init__(self, device: Device) -> None:
        super().__init__(stream_of(device))
        self.memory: Stream = NumpyStream(device)
        if device.has_kernels:
            self.memory = OpenCLStream(device, memory_of_graph(device))
        self._made: dict[int, Any] = {}
        self.births: dict[int, list[int]] = {}
        self.commands: list[Command] = []
        self.conditions: list[Callable[[], Any]] = []
        self.checks: list[Check] = []
        self.changed: dict[int, Any] = {}
        self.leaves = {}

    def made(self, buffer: Any) -> bool:
        """Whether a buffer was allocated here."""
        return identity(buffer) in self._made

    def call(self, function: Callable[[], Any]) -> None:
        """Take down that a function is to be called at this place."""
        self.take(CallCommand(function))

    def take(self, command: Command) -> None:
        """Take down what is about to be done."""
        self.commands.append(command)

    def _held(self, buffers: Sequence[Any]) -> list[Any]:
        """What keeps the memory of buffers, and not from being used again here."""
        return [self._made.get(identity(buffer), buffer) for buffer in buffers]

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self.memory.allocate(size, dtype)
        key = identity(buffer)
        self.births.setdefault(key, []).append(len(self.commands))
        if buffer is not None and key not in self._made:
            pooled = self.device.has_kernels
            handle = opencl_module().Buffer.from_int_ptr(key, True) if pooled else buffer
            self._made[key] = handle
        return buffer

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        self.take(LaunchCommand(self._held(buffers), launch, scalars))
        self.inner.launch(launch, buffers, scalars)

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        buffer = self.allocate(array.size, dtype)
        self.write(buffer, array, dtype)
        return buffer

    def write(self, buffer: Any, array: np.ndarray[Any, Any], dtype: Dtype) -> None:
        if array.size:
            kept = np.array(array, dtype.numpy, copy=True, order="C")
            self.take(WriteCommand(self._held([buffer]), kept, dtype))
        self.inner.write(buffer, array, dtype)

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        refuse_reading("the host reads a tensor's values")
        return self.inner.download(buffer, size, dtype)

    def copy(self, target: Any, source: Any, size: int, dtype: Dtype) -> None:
        if size:
            self.take(CopyCommand(self._held([target, source]), size, dtype))
        self.inner.copy(target, source, size, dtype)

    def fill(self, buffer: Any, size: int, dtype: Dtype, value: Any) -> None:
        if size:
            self.take(FillCommand(self._held([buffer]), size, dtype, value))
        self.inner.fill(buffer, size, dtype, value)

    def host_call(
        self,
        run: Callable[..., None],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        forms: Sequence[tuple[tuple[int, ...], Any]],
    ) -> None:
        held = self._held([*inputs, *outputs])
        self.take(HostCommand(held, len(inputs), run, forms))
        self.inner.host_call(run, inputs, outputs, forms)


_Kind = TypeVar("_Kind", bound=Recording)


@contextmanager
def recording(device: Device, who: str) -> Iterator[Recording]:
    """Take down what this thread asks of a device; raises ReplayError inside another capture."""
    with recording_by(Recording(device), who) as recorder:
        yield recorder


@contextmanager
def recording_by(recorder: _Kind, who: str) -> Iterator[_Kind]:
    """The same with a recording of a kind of one's own."""
    refuse_in_capture(who, "a capture inside a capture", "Leave the other one first")
    with use_stream(recorder), captured_by(recorder):
        yield recorder
