"""Line: the commands of one op, which run with the memory of other tensors each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, final

import torch
from netcl_plugin_capture.commands import (
    Command,
    CopyCommand,
    FillCommand,
    LaunchCommand,
    identity,
)
from netcl_plugin_capture.recording import Recording

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.inspect.data import dense
from netcl_core.inspect.recorded import thread
from netcl_core.inspect.streams import (
    Asked,
    memory_of,
    opencl_module,
    own_stream,
    replaced,
    stream_of,
)
from netcl_core.plugins.protocol import registry
from netcl_plugin_torch.records import RecordAgain
from netcl_plugin_torch.tensor import DEVICE, NetclTensor

_BYTE: Final = nc.DTYPES["uint8"]
_make = torch.Tensor._make_wrapper_subclass


class Unprepared(Exception):  # noqa: N818 - no error of the user's: the op's code runs each time
    """An op that does more than its commands say."""


@final
class Line:
    """What an op asked of the device, for tensors like those that it was given.

    Memory is numbered: that of the operands, then what the op allocates.

    Args:
        taken: What was asked for.
        operands: The netcl tensors, and their memory.
        results: PyTorch's tensors: one, or a list or tuple of some.

    Raises Unprepared where an op reads, keeps or changes what is neither.
    """

    __slots__ = (
        "_checks", "_chosen", "_default", "_device", "_kind", "_makers", "_plain", "_records",
        "_rooms", "_steps", "_stream", "_version",
    )  # fmt: skip

    def __init__(
        self, taken: Recording, operands: Sequence[Any], memory: Sequence[Any], results: Any
    ) -> None:
        self._device = taken.device
        self._stream = own_stream(taken.device)
        self._chosen, self._version = thread.chosen, registry.version
        self._default = torch.get_default_dtype()  # that of what is divided, say
        if taken.conditions or taken.changed or taken.leaves or thread.amp is not None:
            raise Unprepared
        slots = _Slots(taken, operands, memory)
        self._steps = [_step(command, slots) for command in taken.commands]
        self._checks = [slots.check(*check) for check in taken.checks]
        self._kind = type(results)
        several = results if self._kind is list or self._kind is tuple else [results]
        records: dict[int, Any] = {}
        self._makers = [_maker(x, slots, records) for x in several]
        alone = self._kind is NetclTensor and "record" not in results.__dict__
        self._plain = _plain(results, slots) if alone else None
        self._rooms = slots.rooms()
        self._records = slots.records

    def serves(self, operands: Sequence[Any]) -> bool:
        """Whether the op would ask for this now, of tensors like those then."""
        device = self._device
        for x in operands:
            if x.device is not device:
                return False
        return (
            registry.version == self._version
            and thread.chosen == self._chosen
            and thread.amp is None
            and torch.get_default_dtype() is self._default
        )

    def run(self, operands: Sequence[Any], memory: list[Any]) -> Any:
        """The results of other operands."""
        stream = stream_of(self._device) if replaced else self._stream
        for check, chosen, settings in self._checks:
            ag.check_data(check, [make(operands) for make in chosen], settings)
        allocate, launch = stream.allocate, stream.launch
        for size in self._rooms:
            memory.append(allocate(size, _BYTE))
        for kernel, pick, scalars in self._steps:
            if kernel is None:
                pick(stream, memory)
            else:
                launch(kernel, pick(memory), scalars)
        if self._plain is not None:
            make, number, shape, name = self._plain
            result = make()
            result.raw = nc.Tensor(memory[number], shape, name, self._device)
            return result
        if self._records:
            memory.append([RecordAgain(recipe, [make(operands, memory) for make in tensors])
                           for recipe, tensors in self._records])  # fmt: skip
        if self._kind is NetclTensor:
            return self._makers[0](operands, memory)
        made = [make(operands, memory) for make in self._makers]
        return tuple(made) if self._kind is tuple else made


@final
class _Slots:
    """Which memory is which."""

    def __init__(self, taken: Recording, operands: Sequence[Any], memory: Sequence[Any]) -> None:
        self._taken, self._operands = taken, operands
        self.first = len(memory)
        self.numbers: dict[int, int] = {}
        for i, buffer in enumerate(memory):
            if self.numbers.setdefault(identity(buffer), i) != i and buffer not in memory[:i]:
                raise Unprepared  # two handles of one memory
        self._zeros = memory_of(taken.device).zeros
        self._given: dict[int, Any] = {}
        self.records: list[Any] = []

    def number(self, buffer: Any) -> int:
        """The place of a memory; raises Unprepared for that of others."""
        if buffer is None:
            raise Unprepared
        known = self.numbers.get(identity(buffer))
        if known is not None:
            return known
        if not self._taken.made(buffer):
            raise Unprepared
        number = self.numbers[identity(buffer)] = self.first + len(self._given)
        self._given[identity(buffer)] = buffer
        return number

    def places(self, command: Command) -> list[int | Any]:
        """The places of a command's memory; the zeros of the device stay themselves."""
        places: list[Any] = []
        for position, buffer in enumerate(command.buffers):
            if buffer is not None and identity(buffer) == identity(self._zeros):
                places.append(self._zeros)
                continue
            number = self.number(buffer)
            if number < self.first and not command.replaceable(position):
                raise Unprepared  # it changes an operand
            places.append(number)
        return places

    def rooms(self) -> list[int]:
        """The sizes of what is allocated, in bytes."""
        handle = opencl_module().Buffer.from_int_ptr
        return [handle(number, True).size for number in self._given]

    def record(self, record: Any) -> int:
        """The place of a record, behind all memory."""
        tensors = [self.tensor(x) for x in record.tensors()]
        self.records.append((record.recipe(), tensors))
        return len(self.records) - 1

    def place(self, raw: Any) -> Callable[[Sequence[Any]], Any]:
        """What makes an operand of a check, which lies on the memory of one of the op's."""
        if raw is None:
            return lambda _: None
        raw = raw.value
        number = self.numbers.get(identity(raw.memory))
        if number is None or number >= self.first or self._operands[number].dtype != raw.dtype:
            raise Unprepared
        geometry = raw.geometry or dense(raw.shape)
        return lambda operands: operands[number].viewed(geometry)

    def check(self, function: Any, operands: Sequence[Any], settings: Any) -> Any:
        """A check of data, for other operands."""
        return function, [self.place(x) for x in operands], settings

    def tensor(self, raw: Any) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
        """What makes a netcl tensor of operands and memory."""
        for i, x in enumerate(self._operands):
            if x.memory is raw.memory and x.geometry == raw.geometry and x.shape == raw.shape:
                return lambda operands, _: operands[i]
        number = self.number(raw.memory)
        if number < self.first:
            raise Unprepared
        shape, dtype, device, geometry = raw.shape, raw.dtype, raw.device, raw.geometry
        if geometry is None:
            return lambda _, memory: nc.Tensor(memory[number], shape, dtype, device)
        whole = (raw.storage.size,)
        return lambda _, memory: nc.Tensor(memory[number], whole, dtype, device).viewed(geometry)


def _step(command: Command, slots: _Slots) -> tuple[Any, Callable[..., Any], Any]:
    """A launch, what picks its memory, and its scalars; or None, and what does something else."""
    places = slots.places(command)
    if type(command) is LaunchCommand:
        if isinstance(command.scalars, Asked):
            raise Unprepared
        launch, scalars = command.launch, command.scalars
        if len(places) > 1 and all(type(x) is int for x in places):
            return launch, itemgetter(*places), scalars

        def pick(memory: Sequence[Any]) -> list[Any]:
            return [memory[x] if type(x) is int else x for x in places]

        return launch, pick, scalars
    if type(command) is CopyCommand:
        (target, source), size, dtype = places, command.size, command.dtype

        def copy(stream: Any, memory: Sequence[Any]) -> None:
            stream.copy(memory[target], memory[source], size, dtype)

        return None, copy, ()
    if type(command) is FillCommand:
        (filled,), size, dtype, value = places, command.size, command.dtype, command.value

        def fill(stream: Any, memory: Sequence[Any]) -> None:
            stream.fill(memory[filled], size, dtype, value)

        return None, fill, ()
    raise Unprepared  # of the host


def _plain(x: Any, slots: _Slots) -> Any:
    """What makes PyTorch's side of a result in C order, the place of its memory, its shape and its
    dtype; None: it has other strides.
    """
    raw = x.raw
    number = slots.number(raw.memory)
    if number < slots.first or raw is not raw.value:
        raise Unprepared
    if raw.geometry is not None:
        return None
    if not x.is_contiguous() or x.storage_offset():
        raise Unprepared
    make = partial(_make, NetclTensor, raw.shape, dtype=x.dtype, device=DEVICE)
    return make, number, raw.shape, raw.dtype


def _maker(
    x: Any, slots: _Slots, records: dict[int, Any]
) -> Callable[[Sequence[Any], Sequence[Any]], Any]:
    """What makes a result of operands and memory."""
    if x is None:
        return lambda *_: None
    if type(x) is not NetclTensor:
        raise Unprepared
    record = x.__dict__.get("record")
    if record is not None:
        return _statistic(x, record, slots, records)
    simple, device = _plain(x, slots), x.raw.device
    if simple is not None:
        of_shape, number, shape, name = simple
        tensor = nc.Tensor

        def plain(_: Sequence[Any], memory: Sequence[Any]) -> Any:
            result = of_shape()
            result.raw = tensor(memory[number], shape, name, device)
            return result

        return plain
    sizes, strides = tuple(x.shape), x.stride()
    make = partial(_make, NetclTensor, sizes, strides=strides, dtype=x.dtype, device=DEVICE,
                   storage_offset=x.storage_offset())  # fmt: skip
    viewed = slots.tensor(x.raw)

    def view(operands: Sequence[Any], memory: Sequence[Any]) -> Any:
        result = make()
        result.raw = viewed(operands, memory)
        return result

    return view


def _statistic(x: Any, record: Any, slots: _Slots, records: dict[int, Any]) -> Any:
    """What makes a result that is computed if somebody reads it."""
    if "raw" in x.__dict__:
        raise Unprepared
    number = records.get(id(record))
    if number is None:
        number = records[id(record)] = slots.record(record)
    make = partial(_make, NetclTensor, tuple(x.shape), dtype=x.dtype, device=DEVICE)
    place = x.place

    def statistic(_: Sequence[Any], memory: Sequence[Any]) -> Any:
        result = make()
        result.record, result.place = memory[-1][number], place
        return result

    return statistic
