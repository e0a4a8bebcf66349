"""Commands: what a stream was asked for, as records that ask for it again.

Each names its buffers, so that another one can take the place of one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import numpy as np

from netcl_core.inspect.data import Dtype
from netcl_core.inspect.sources import read_only
from netcl_core.inspect.streams import Asked, Launch, Stream


def identity(buffer: Any) -> int:
    """What two handles of the same memory have in common."""
    pointer: int | None = getattr(buffer, "int_ptr", None)
    return id(buffer) if pointer is None else pointer


class Command(Protocol):
    """Something that a stream did."""

    buffers: list[Any]

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""

    def replaceable(self, position: int) -> bool:
        """Whether a buffer is only read, and another can stand there for once."""


class _Writing:
    """A command whose buffers stay where they are."""

    __slots__ = ()

    def replaceable(self, position: int) -> bool:
        """No."""
        return False


@final
@dataclass(slots=True)
class LaunchCommand:
    """A kernel; scalars that are `Asked` are asked for anew."""

    buffers: list[Any]
    launch: Launch
    scalars: Sequence[bytes]

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""
        scalars = self.scalars
        now = scalars.again() if isinstance(scalars, Asked) else scalars
        stream.launch(self.launch, self.buffers, now)

    def replaceable(self, position: int) -> bool:
        """By the kernel's signature."""
        flags = read_only(self.launch.source, self.launch.entry)
        return position < len(flags) and flags[position]


@final
@dataclass(slots=True)
class WriteCommand(_Writing):
    """Host data that stay as they are."""

    buffers: list[Any]
    array: np.ndarray[Any, Any]
    dtype: Dtype

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""
        stream.write(self.buffers[0], self.array, self.dtype)


@final
@dataclass(slots=True)
class CopyCommand:
    """A copy of the second buffer into the first."""

    buffers: list[Any]
    size: int
    dtype: Dtype

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""
        stream.copy(self.buffers[0], self.buffers[1], self.size, self.dtype)

    def replaceable(self, position: int) -> bool:
        """The source."""
        return position == 1


@final
@dataclass(slots=True)
class FillCommand(_Writing):
    """One value for all elements."""

    buffers: list[Any]
    size: int
    dtype: Dtype
    value: Any

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""
        stream.fill(self.buffers[0], self.size, self.dtype, self.value)


@final
@dataclass(slots=True)
class HostCommand:
    """A host call; its first `inputs` buffers are read."""

    buffers: list[Any]
    inputs: int
    call: Callable[..., None]
    forms: Sequence[tuple[tuple[int, ...], Any]]

    def run(self, stream: Stream) -> None:
        """Ask a stream for it."""
        given, filled = self.buffers[: self.inputs], self.buffers[self.inputs :]
        stream.host_call(self.call, given, filled, self.forms)

    def replaceable(self, position: int) -> bool:
        """The inputs."""
        return position < self.inputs


@final
@dataclass(slots=True)
class CallCommand(_Writing):
    """A function of the host that goes on with something."""

    function: Callable[[], Any]
    buffers: list[Any] = field(default_factory=list)

    def run(self, stream: Stream) -> None:
        """Call it."""
        self.function()
