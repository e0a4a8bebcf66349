"""StepRecording: a call of a step is taken down without standing in its way.

A capture raises where it cannot go on. Here the call has to give what it gives anyway: values are
read as usual, gradients are added to those of before, and where an op refuses a capture, what
was done can be undone, so that the call begins again. `why` says then that it is no recording.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, TypeAlias, final

import numpy as np

import netcl_core as nc
from netcl_core import DTYPES, Device, Tensor
from netcl_core.autograd import check_data
from netcl_core.inspect.data import Dtype
from netcl_core.inspect.programs import cell_contents
from netcl_core.inspect.streams import (
    Asked,
    Stream,
    StreamWrapper,
    memory_of,
    opencl_module,
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
from netcl_plugin_capture.recording import Recording
from netcl_plugin_capture.step_watch import PLAIN
from netcl_plugin_capture.witness import within

#: What a buffer is in a recording: a letter, and a number or an address.
Role: TypeAlias = tuple[str, int]
_BYTES: Final = DTYPES["uint8"]
#: Deeper than this what a function holds is told apart by its type alone.
_DEEPEST: Final = 6
#: Whose calls at a replay draw random numbers, which begin again from a state that is kept.
_DRAWS: Final = "netcl_core.tensors.random_state"


@final
class _Beside(StreamWrapper):
    """The device's stream, for what outlives a recording; notes what it allocates."""

    def __init__(self, inner: Stream, read: Callable[[Any, Dtype], None]) -> None:
        super().__init__(inner)
        self.read = read
        self.made: dict[int, int] = {}

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = self.inner.allocate(size, dtype)
        if buffer is not None:
            self.made[identity(buffer)] = len(self.made)
        return buffer

    def upload(self, array: np.ndarray[Any, Any], dtype: Dtype) -> Any:
        buffer = self.allocate(array.size, dtype)
        self.inner.write(buffer, array, dtype)
        return buffer

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        self.read(buffer, dtype)
        return self.inner.download(buffer, size, dtype)


def _not_asked(buffer: Any, dtype: Dtype) -> None:
    """After the recording."""


@final
class _Leaves(dict[int, Any]):
    """The leaves that get a gradient; those of before stay, and are added to."""

    def __init__(self, keep: Callable[[Any], None]) -> None:
        super().__init__()
        self._keep = keep

    def setdefault(self, key: int, default: Any = None) -> Any:
        if key not in self:
            self._keep(default[1])
        return super().setdefault(key, default)


@final
class StepRecording(Recording):
    """One call of a step.

    Args:
        device: Where it works.
        inputs: By address the number of the argument that lies there.

    Attributes:
        why: Why it cannot be done again; empty: nothing is known.
    """

    def __init__(self, device: Device, inputs: dict[int, int]) -> None:
        super().__init__(device)
        self._inputs = inputs
        self._beside = self.inner = _Beside(self.inner, self._checked)
        self.why = ""
        self.leaves = _Leaves(self._keep)
        self._kept: set[int] = set()
        self._number: dict[int, int] = {}
        self._allocations = 0
        self._roles: list[list[Role]] = []
        #: What written memory held before, with its size; None: too much has been done.
        self._before: dict[int, tuple[Any, Any, int]] | None = {}
        self._zeros = identity(memory_of(device).zeros)
        self._random = nc.default_generator.get_state()

    def _keep(self, gradient: Any) -> None:
        if gradient is not None:
            self._kept.add(identity(gradient.value.memory))

    def made(self, buffer: Any) -> bool:
        """Whether it was allocated here, or is a gradient that is added to."""
        return super().made(buffer) or identity(buffer) in self._kept

    def allocated(self, buffer: Any) -> bool:
        """Whether it was allocated here."""
        return super().made(buffer)

    def allocate(self, size: int, dtype: Dtype) -> Any:
        buffer = super().allocate(size, dtype)
        if buffer is not None:
            self._allocations += 1
            self._number[identity(buffer)] = self._allocations
        return buffer

    def role(self, buffer: Any) -> Role:
        """Which allocation here or beside it, or argument it is; of other memory the address."""
        key = identity(buffer)
        if key in self._number:
            return "made", self._number[key]
        if key in self._beside.made:
            return "beside", self._beside.made[key]
        return ("argument", self._inputs[key]) if key in self._inputs else ("before", key)

    def _checked(self, buffer: Any, dtype: Dtype) -> None:
        """Note what a check of data reads, if a replay does not look at it again."""
        if not within(check_data, sys._getframe()):
            return  # who keeps a state of his own reads it at replays, too
        role = self.role(buffer)[0]
        if role == "beside":  # a kernel of the check has looked for the extremes
            made = [x is not None and self.allocated(x.value.memory) and not _floating(x)
                    for x in self.checks[-1][1]]  # fmt: skip
            role = "made" if any(made) else ""
        if role == "made" or (role == "before" and dtype.floating):
            self.why = self.why or "the host checks values that it computes"

    def download(self, buffer: Any, size: int, dtype: Dtype) -> np.ndarray[Any, Any]:
        self.why = self.why or "it reads a tensor's values"
        return self.inner.download(buffer, size, dtype)

    def _held(self, buffers: Sequence[Any]) -> list[Any]:
        self._roles.append([self.role(buffer) for buffer in buffers])
        return super()._held(buffers)

    def close(self) -> None:
        """Let go of itself, so that it goes, with its memory, when nobody else has it."""
        self.leaves = dict(self.leaves)
        self._beside.read = _not_asked

    # -- to undo it ------------------------------------------------------------------------

    def take(self, command: Command) -> None:
        super().take(command)
        if self._before is None:
            return
        if isinstance(command, CallCommand):
            if getattr(_inner(command.function), "__module__", "") != _DRAWS:
                owner = getattr(command.function, "__self__", None)
                if not isinstance(owner, Tensor):  # of a leaf it counts a gradient
                    self._before = None
            return
        for position, buffer in enumerate(command.buffers):
            if buffer is not None and not command.replaceable(position):
                self._save(buffer)

    def _save(self, buffer: Any) -> None:
        key = identity(buffer)
        assert self._before is not None  # asked by `take`
        if key in self._before or key == self._zeros or self.role(buffer)[0] in ("made", "beside"):
            return
        size = opencl_module().Buffer.from_int_ptr(key, True).size
        copy = self.inner.allocate(size, _BYTES)
        self.inner.copy(copy, buffer, size, _BYTES)
        self._before[key] = buffer, copy, size

    def undo(self) -> bool:
        """Let the device, random numbers and counts of gradients be as before; False: too late."""
        if self._before is None:
            return False
        for buffer, copy, size in self._before.values():
            self.inner.copy(buffer, copy, size, _BYTES)
        nc.default_generator.set_state(self._random)
        for command in self.commands:
            if isinstance(command, CallCommand):
                leaf = getattr(command.function, "__self__", None)
                if isinstance(leaf, Tensor):
                    leaf.arrivals -= 1
        return True

    # -- to compare it ---------------------------------------------------------------------

    def described(self) -> list[Any]:
        """All that was done, as rows that are equal for equal calls."""
        self._before = None
        roles = iter(self._roles)
        rows: list[Any] = []
        for command in self.commands:
            buffers = () if isinstance(command, CallCommand) else next(roles)
            rows.append((*_row(command), *buffers))
        rows += [("condition", form(condition)) for condition in self.conditions]
        for check, operands, settings in self.checks:
            places = [x if x is None else self.role(x.value.memory) for x in operands]
            rows.append(("check", form(check), form(settings), places))
        rows.append(("gradients", list(self.leaves)))
        changed = [x for x in self.changed.values() if not self.made(x.memory)]
        rows.append(("changes", [self.role(x.memory) for x in changed]))
        return rows


def _floating(x: Any) -> bool:
    return DTYPES[x.dtype].floating


def _inner(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function


def _row(command: Command) -> tuple[Any, ...]:
    """What a command does, but for its buffers."""
    if isinstance(command, LaunchCommand):
        launch, scalars = command.launch, command.scalars
        asked = isinstance(scalars, Asked)
        return (
            "kernel", launch.entry, launch.source, launch.global_size, launch.local_size,
            tuple(launch.constants), ("asked", len(scalars)) if asked else tuple(scalars),
        )  # fmt: skip
    if isinstance(command, WriteCommand):
        array = command.array
        return "host data", command.dtype.name, array.shape, array.tobytes()
    if isinstance(command, CopyCommand):
        return "copy", command.size, command.dtype.name
    if isinstance(command, FillCommand):
        return "fill", command.size, command.dtype.name, repr(command.value)
    if isinstance(command, HostCommand):
        return "host call", form(command.call, True), command.inputs, repr(command.forms)
    assert isinstance(command, CallCommand)  # there is no other
    return "call", form(command.function)


def form(value: Any, strict: bool = False, depth: int = 0) -> Any:
    """What two functions that do the same have in common, though they are made at each call.

    Objects count by their type, or with `strict` by their identity.
    """
    inner = partial(form, strict=strict, depth=depth + 1)
    if isinstance(value, PLAIN):
        return type(value), repr(value)
    if isinstance(value, (type, np.dtype, CodeType)):
        return value
    if depth < _DEEPEST:
        if isinstance(value, partial):
            return inner(value.func), inner(value.args), inner(value.keywords)
        if isinstance(value, MethodType):
            return value.__func__.__code__, inner(value.__self__)
        if isinstance(value, FunctionType):
            cells = list(map(cell_contents, value.__closure__ or ()))
            return value.__code__, inner(cells), inner(value.__defaults__)
        if type(value) in (list, tuple):
            return tuple(inner(item) for item in value)
        if type(value) is dict and strict:
            return tuple((inner(name), inner(item)) for name, item in value.items())
    return id(value) if strict else type(value)
