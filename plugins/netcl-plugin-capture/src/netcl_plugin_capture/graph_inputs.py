"""The inputs of a captured graph: what a replay is given, checked and brought to their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from netcl_core import DTYPES, Device, Tensor, get_device, host_array
from netcl_core.errors import ReplayError, message
from netcl_core.inspect.captures import Check
from netcl_core.inspect.data import Array
from netcl_core.inspect.streams import Stream, own_stream
from netcl_plugin_capture.commands import Command, identity


@final
@dataclass(slots=True)
class GraphInput:
    """A place for data.

    Attributes:
        number: Of the input.
        captured: The tensor that the block used.
        buffer: The graph's own, in the place of that of the capture.
        uses: The commands that read it, and where; None: what it is given has to be copied.
        current: What they read now.
    """

    number: int
    captured: Tensor
    buffer: Any
    uses: list[tuple[int, int]] | None = None
    current: Any = None

    def fitting(self, given: Any) -> Tensor | Array:
        """What a replay is given, on the device or the host; raises ReplayError for a misfit."""
        wanted = self.captured
        value: Tensor | Array
        if isinstance(given, Tensor):
            value = given.value
            if value.device is not wanted.device:
                remedy = f"Move it with .to('{wanted.device}')"
                raise self._misfit(f"lies on {value.device}", str(wanted.device), remedy)
        else:
            value = host_array(given, None if hasattr(given, "dtype") else wanted.dtype)
        if (value.shape, value.dtype) != (wanted.shape, wanted.dtype):
            expected = f"shape {wanted.shape} and dtype {wanted.dtype}"
            remedy = "A graph has fixed shapes and dtypes: capture another one for these"
            raise self._misfit(f"has shape {value.shape} and dtype {value.dtype}", expected, remedy)
        return value

    def _misfit(self, given: str, expected: str, remedy: str) -> ReplayError:
        return ReplayError(message("replay", f"input {self.number} {given}", expected, remedy))

    def take(self, given: Tensor | Array, stream: Stream, copied: set[int]) -> bool:
        """Bring the data here; does not wait. Whether they now lie elsewhere than before.

        A tensor is copied if the graph writes the input or uses the tensor's buffer (`copied`).
        """
        size, dtype = self.captured.size, DTYPES[self.captured.dtype]
        before, self.current = self.current, self.buffer
        buffer = given.buffer if isinstance(given, Tensor) else None
        if not isinstance(given, Tensor):
            stream.write(self.buffer, given, dtype)
        elif self.uses is None or identity(buffer) in copied:
            stream.copy(self.buffer, buffer, size, dtype)
        else:
            self.current = buffer
        return self.current is not before


@final
class GraphInputs:
    """All inputs of a graph, and the checks of data that depend on them."""

    def __init__(self, device: Device, inputs: Any, used: set[int], checks: Sequence[Check]):
        self._places = [
            _place(number, operand, device, used) for number, operand in enumerate(_listed(inputs))
        ]
        self.moved = {identity(x.captured.memory): x for x in self._places if x.captured.size}
        if len(self.moved) < sum(1 for x in self._places if x.captured.size):
            raise _refused("two inputs that share their memory", "each tensor once")
        self._checks = [check for check in checks if any(map(self._place_of, check[1]))]

    def _place_of(self, operand: Any) -> GraphInput | None:
        return None if operand is None else self.moved.get(identity(operand.memory))

    def of_graph(self, buffer: Any) -> Any:
        """The buffer that takes the place of one of the capture."""
        place = self.moved.get(identity(buffer))
        return buffer if place is None else place.buffer

    def fitting(self, given: Any) -> list[Tensor | Array]:
        """The data for a replay; raises before anything is changed."""
        data = _listed(given)
        if len(data) != len(self._places):
            raise ReplayError(
                message("replay", f"{len(data)} inputs", f"{len(self._places)}, as for compile")
            )
        fitted = [place.fitting(value) for place, value in zip(self._places, data, strict=True)]
        for check, operands, settings in self._checks:
            check([self._now(operand, fitted) for operand in operands], settings)
        return fitted

    def _now(self, operand: Any, data: Sequence[Tensor | Array]) -> Any:
        """What stands in a replay for an operand that was checked in the capture."""
        place = self._place_of(operand)
        if place is None:
            return operand
        given = data[place.number]
        value = given if isinstance(given, Tensor) else Tensor.from_host(given, get_device("numpy"))
        return value.alias(operand.shape) if value.shape != operand.shape else value

    def settle(self, commands: Sequence[Command], fixed: set[int]) -> None:
        """Find who reads each input. Those in `fixed` stay where they are: outputs show them."""
        self._buffers = {
            identity(buffer) for command in commands for buffer in command.buffers
        } | fixed
        for place in self.moved.values():
            key = identity(place.buffer)
            uses = [
                (number, position)
                for number, command in enumerate(commands)
                for position, buffer in enumerate(command.buffers)
                if identity(buffer) == key
            ]
            place.current = place.buffer
            if key not in fixed and all(commands[i].replaceable(j) for i, j in uses):
                place.uses = uses

    def written(self) -> bool:
        """Whether the graph writes to one of them."""
        return any(place.uses is None for place in self.moved.values())

    def take(
        self, data: Sequence[Tensor | Array], stream: Stream
    ) -> Iterator[tuple[int, int, Any]]:
        """Bring all of them to their places; gives the commands that have another buffer now."""
        for place, given in zip(self._places, data, strict=True):
            if place.take(given, stream, self._buffers):
                for number, position in place.uses or ():
                    yield number, position, place.current


def _listed(inputs: Any) -> Sequence[Any]:
    if not isinstance(inputs, (list, tuple)):
        raise _refused(f"inputs of type {type(inputs).__name__}", "a list of tensors")
    return inputs


def _place(number: int, operand: Any, device: Device, used: set[int]) -> GraphInput:
    if not isinstance(operand, Tensor):
        given = f"input {number} of type {type(operand).__name__}"
        raise _refused(given, "a tensor that was there before the capture and is used in it")
    value = operand.value
    if value.device is not device:
        raise _refused(f"input {number} on {value.device}", f"one on {device}")
    if value.geometry is not None:
        remedy = "Give the block a tensor of its own, such as x.contiguous()"
        raise _refused(f"input {number}, a view", "all of a memory", remedy)
    if value.size and identity(value.memory) not in used:
        given = f"input {number}, of shape {value.shape}, which the capture never read"
        remedy = "Pass the tensors that the block itself used, and none that it made"
        raise _refused(given, "inputs that make a difference", remedy)
    fresh = own_stream(device).allocate(value.size, DTYPES[value.dtype])
    return GraphInput(number, value, fresh)


def _refused(given: str, expected: str, remedy: str = "") -> ReplayError:
    return ReplayError(message("CompiledGraph", given, expected, remedy))
