"""Rebound: captured commands that run with other memory each time, for what they read and give."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, final

from netcl_core import DTYPES
from netcl_core.inspect.streams import OpenCLStream, memory_of, opencl_module, own_stream
from netcl_plugin_capture.commands import LaunchCommand, identity
from netcl_plugin_capture.opencl_replay import OpenCLReplay
from netcl_plugin_capture.recording import Recording


@final
class Rebound:
    """The commands of a recording, whose inputs and outputs are given anew at each run.

    A `CompiledGraph` overwrites its outputs. Here each run gives memory of its own, so that the
    results of several runs live side by side, and inputs are read and written where they lie.
    What lies between is overwritten. Runs must not overlap.

    Args:
        recording: What a stream was asked for.
        inputs: Buffers from before the recording, each once.
        outputs: Buffers that were allocated in it, each once.

    Raises ValueError if the commands write to other memory from before the recording.
    """

    def __init__(self, recording: Recording, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        commands, device = recording.commands, recording.device
        stream = own_stream(device)
        assert isinstance(stream, OpenCLStream)  # others prepare nothing
        self._stream = stream
        places = {identity(buffer): i for i, buffer in enumerate([*inputs, *outputs])}
        zeros = identity(memory_of(device).zeros)  # which kernels leave as it was
        self._uses: list[list[tuple[int, int]]] = [[] for _ in places]
        for number, command in enumerate(commands):
            for position, buffer in enumerate(command.buffers):
                place = places.get(identity(buffer))
                if place is not None:
                    self._uses[place].append((number, position))
                elif not (
                    recording.made(buffer) or command.replaceable(position)
                    or identity(buffer) == zeros
                ):  # fmt: skip
                    raise ValueError(f"command {number} writes to memory that is no input")
        handle = opencl_module().Buffer.from_int_ptr
        self._sizes = [handle(identity(buffer), True).size for buffer in outputs]
        self._replay = OpenCLReplay(self._stream, commands)
        every = list(chain(*self._uses))
        self._copied = [use for use in every if not isinstance(commands[use[0]], LaunchCommand)]
        for number, position in every:  # between two runs they hold no memory
            commands[number].buffers[position] = None

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Enqueue everything with these buffers; gives those of the outputs. Does not wait."""
        outputs = [self._stream.allocate(size, DTYPES["uint8"]) for size in self._sizes]
        for uses, buffer in zip(self._uses, (*inputs, *outputs), strict=True):
            self._replay.bind(uses, buffer)
        self._replay.run()
        self._replay.bind(self._copied, None)
        return outputs
