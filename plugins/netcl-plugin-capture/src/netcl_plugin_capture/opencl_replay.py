"""A replay on OpenCL: commands with all that can be prepared done, so that enqueuing is left.

Each launch has a kernel object of its own, in which its arguments stay set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, final

from netcl_core.inspect.streams import (
    Asked,
    OpenCLStream,
    fill_pattern,
    memory_of,
    opencl_module,
)
from netcl_plugin_capture.commands import (
    CallCommand,
    Command,
    CopyCommand,
    FillCommand,
    LaunchCommand,
    WriteCommand,
)

#: Gives the event of what it enqueued, or None.
Prepared: TypeAlias = Callable[[], Any]


@final
class OpenCLReplay:
    """Commands of a device's own stream, ready to be enqueued again and again."""

    def __init__(self, stream: OpenCLStream, commands: Sequence[Command]) -> None:
        self._stream = stream
        self._commands = commands  # which hold the buffers and the host's arrays
        self._kernels: dict[int, Any] = {}
        self._prepared = [self._ready(number) for number in range(len(commands))]
        self._no_memory = opencl_module().MemoryError

    def _ready(self, number: int) -> Prepared:
        stream, command = self._stream, self._commands[number]
        if isinstance(command, LaunchCommand):
            kernel = command.launch.alone(command.buffers, command.scalars)
            self._kernels[number] = kernel
            return _launch(stream, command, kernel)
        if isinstance(command, CallCommand):
            return _without_result(command.function)
        prepare = _PREPARE.get(type(command))
        return partial(command.run, stream) if prepare is None else prepare(stream, command)

    def bind(self, uses: Sequence[tuple[int, int]], buffer: Any) -> None:
        """Give commands, each at a position, another buffer; kernels do not keep it alive."""
        for number, position in uses:
            kernel = self._kernels.get(number)
            if kernel is None:
                self._commands[number].buffers[position] = buffer
            else:
                kernel.set_arg(position, buffer)

    def run(self) -> None:
        """Enqueue all of them; does not wait."""
        self._stream.catch_up()
        event = None
        try:
            for command in self._prepared:
                event = command() or event
        except self._no_memory as error:
            raise memory_of(self._stream.device).shortage(None, error) from error
        if event is not None:
            self._stream.note(len(self._prepared), event)


def _launch(stream: OpenCLStream, command: LaunchCommand, kernel: Any) -> Prepared:
    cl, launch, first = opencl_module(), command.launch, len(command.buffers)
    enqueue = partial(
        cl.enqueue_nd_range_kernel, stream.queue, kernel, launch.global_size, launch.local_size
    )
    if not isinstance(command.scalars, Asked):
        return enqueue
    again = command.scalars.again

    def run() -> Any:
        for index, scalar in enumerate(again(), start=first):
            kernel._set_arg_buf(index, scalar)
        return enqueue()

    return run


def _write(stream: OpenCLStream, command: WriteCommand) -> Prepared:
    """A copy on the device: who copies from the host has to hold the memory until it is done."""
    source, nbytes = stream.upload(command.array, command.dtype), command.array.nbytes
    copy, buffers = opencl_module().enqueue_copy, command.buffers
    return lambda: copy(stream.queue, buffers[0], source, byte_count=nbytes)


def _copy(stream: OpenCLStream, command: CopyCommand) -> Prepared:
    nbytes = command.size * command.dtype.itemsize
    copy, buffers = opencl_module().enqueue_copy, command.buffers
    return lambda: copy(stream.queue, *buffers, byte_count=nbytes)


def _fill(stream: OpenCLStream, command: FillCommand) -> Prepared:
    pattern = fill_pattern(command.value, command.dtype)
    nbytes, fill = command.size * command.dtype.itemsize, opencl_module().enqueue_fill_buffer
    buffers = command.buffers
    return lambda: fill(stream.queue, buffers[0], pattern, 0, nbytes)


_PREPARE: Final[dict[type, Callable[[Any, Any], Prepared]]] = {
    WriteCommand: _write,
    CopyCommand: _copy,
    FillCommand: _fill,
}


def _without_result(function: Callable[[], Any]) -> Prepared:
    def run() -> None:
        function()

    return run
