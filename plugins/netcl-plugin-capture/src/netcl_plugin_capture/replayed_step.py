"""ReplayedStep: a recorded call of a step, to be done again with other arguments.

Its results have memory of their own at each replay. Gradients are the tensors of the recorded
call, overwritten, unless somebody else holds one: then it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, is_
from sys import getrefcount
from typing import Any, Final, TypeAlias, final

from netcl_core import DTYPES, Tensor
from netcl_core.autograd import Node
from netcl_core.errors import GradientError
from netcl_core.inspect.streams import OpenCLStream, opencl_module, own_stream
from netcl_plugin_capture.capture import Replays
from netcl_plugin_capture.commands import LaunchCommand, identity
from netcl_plugin_capture.step_recording import StepRecording
from netcl_plugin_capture.step_watch import PLAIN

#: Makes a result of the arguments that are tensors and the buffers of the outputs.
Maker: TypeAlias = Callable[[Sequence[Any], Sequence[Any]], Any]
_GRAD: Final = attrgetter("grad")


class NotReplayedError(Exception):
    """Why a recorded call cannot be done again."""


@final
class StepOutcome:
    """What a recorded call gave and left behind.

    Attributes:
        form: Equal for calls that gave the like.
        leaves: The tensors whose gradients counted, with the gradient before and after.

    Raises NotReplayedError for what no replay can give.
    """

    def __init__(
        self,
        recording: StepRecording,
        arguments: Sequence[Any],
        result: Any,
        begun: Sequence[tuple[Tensor, Any]],
    ) -> None:
        self._recording = recording
        self._arguments = {id(x): i for i, x in enumerate(arguments)}
        self.slots: dict[int, int] = {}
        self.buffers: list[Any] = []
        self.result = result
        form, self.make = self._told(result)
        self.leaves = [
            (leaf, before, leaf.grad)
            for leaf, before in begun
            if leaf.requires_grad or before is not None or leaf.grad is not None
        ]
        known = {id(leaf) for leaf, _, _ in self.leaves}
        if any(key not in known for key in recording.leaves):
            raise NotReplayedError("a gradient goes to a tensor that its code does not show")
        states = [self._state(*state) for state in self.leaves]
        self.form = form, states
        gradients = [after for _, _, after in self.leaves if after is not None]
        if any(identity(gradient.value.memory) in self.slots for gradient in gradients):
            raise NotReplayedError("it returns a gradient itself: return a copy")
        del self._recording, self._arguments  # and with them their memory

    def _state(self, leaf: Tensor, before: Any, after: Any) -> Any:
        if after is before and id(leaf) not in self._recording.leaves:
            return "left"
        if after is None:
            return None
        if type(after) is Node or not self._recording.allocated(after.memory):
            raise NotReplayedError("it leaves a gradient that it did not compute")
        return self._recording.role(after.memory)

    def _told(self, value: Any) -> tuple[Any, Maker]:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, PLAIN):
            return (type(value), repr(value)), lambda *_: value
        if isinstance(value, (list, tuple)):
            kind = type(value)
            parts = [self._told(item) for item in value]
            makers = [make for _, make in parts]
            named = hasattr(value, "_fields")

            def listed(*run: Any) -> Any:
                items = [make(*run) for make in makers]
                return kind(*items) if named else kind(items)

            return (kind, [form for form, _ in parts]), listed
        if type(value) is dict:
            names = [(name, *self._told(item)) for name, item in value.items()]
            return (
                [(name, form) for name, form, _ in names],
                lambda *run: {name: make(*run) for name, _, make in names},
            )
        return ("object", id(value)), lambda *_: value

    def _tensor(self, value: Tensor) -> tuple[Any, Maker]:
        number = self._arguments.get(id(value))
        if number is not None:
            return ("argument", number), lambda arguments, _: arguments[number]
        raw = value.value
        if type(value) is Node and _walkable(value):
            raise NotReplayedError("it returns a result whose gradients are still to be computed")
        memory, shape, dtype, device = raw.memory, raw.shape, raw.dtype, raw.device
        if device is not self._recording.device or memory is None:
            raise NotReplayedError("it returns a tensor on another device, or without elements")
        if not self._recording.allocated(memory):
            return ("object", id(value)), lambda *_: value
        slot = self.slots.setdefault(identity(memory), len(self.slots))
        if slot == len(self.buffers):
            self.buffers.append(memory)
        geometry = raw.geometry
        if geometry is None:
            form: Any = "made", self._recording.role(memory), shape, dtype
            return form, lambda _, buffers: Tensor(buffers[slot], shape, dtype, device)
        whole = (raw.storage.size,)
        form = "view", self._recording.role(memory), shape, dtype, geometry.strides, geometry.offset
        return form, lambda _, buffers: Tensor(buffers[slot], whole, dtype, device).viewed(geometry)


def _walkable(node: Node) -> bool:
    """Whether a backward pass can still reach a leaf from a result."""
    waiting, seen = [node], set()
    while waiting:
        x = waiting.pop()
        if type(x) is not Node or not x.requires_grad or id(x) in seen:
            continue
        seen.add(id(x))
        if x.is_leaf:
            return True
        record = x if x.source is None else x.source
        try:
            iter(record.kept or ())
        except GradientError:  # let go by a backward pass
            continue
        waiting += record.parents
    return False


def _checked(recording: StepRecording) -> list[Tensor]:
    """Class indices of before that were checked, and are no arguments: they have to stay."""
    operands = [x.value for _, operands, _ in recording.checks for x in operands if x is not None]
    return [
        x for x in operands
        if recording.role(x.memory)[0] == "before" and not DTYPES[x.dtype].floating
    ]  # fmt: skip


def _held_by_a_list() -> int:
    """What `getrefcount` says of something that one list holds."""
    return next(map(getrefcount, [object()]))


_ALONE: Final = _held_by_a_list()


@final
class ReplayedStep:
    """A recorded call, ready to be done again.

    Args:
        recording: The commands.
        outcome: What the call gave.
        tensors: The arguments that are tensors.

    Raises NotReplayedError for what no replay can do.
    """

    def __init__(
        self, recording: StepRecording, outcome: StepOutcome, tensors: Sequence[Tensor]
    ) -> None:
        device = recording.device
        stream = own_stream(device)
        assert isinstance(stream, OpenCLStream)  # others record nothing
        used = {identity(buffer) for command in recording.commands for buffer in command.buffers}
        self._read = [i for i, x in enumerate(tensors) if identity(x.memory) in used]
        self._replays = Replays(recording, [tensors[i] for i in self._read], None)
        if self._replays.inputs.written():
            raise NotReplayedError("it writes to an argument")
        self.kernels = sum(isinstance(command, LaunchCommand) for command in recording.commands)
        #: How many changes of tensors there are after the last run, if nobody else makes one.
        self.changes = -1
        self._make = outcome.make
        self._memory = recording.memory
        self._stream = stream
        handle = opencl_module().Buffer.from_int_ptr
        self._sizes = [handle(identity(buffer), True).size for buffer in outcome.buffers]
        self._uses: list[list[tuple[int, int]]] = [[] for _ in outcome.slots]
        for number, command in enumerate(self._replays.commands):
            for position, buffer in enumerate(command.buffers):
                slot = outcome.slots.get(identity(buffer))
                if slot is not None:
                    self._uses[slot].append((number, position))
        self._note_leaves(outcome, used)
        self._checked = _checked(recording)
        #: Of class indices that are no arguments, as they were when they were last checked.
        self.versions = self.versions_now()

    def _note_leaves(self, outcome: StepOutcome, used: set[int]) -> None:
        self._leaves = [leaf for leaf, _, _ in outcome.leaves]
        self._unset = [before is None for _, before, _ in outcome.leaves]
        #: Gradients of before that the commands use have to be those.
        self._fixed = [
            (leaf, before)
            for leaf, before, _ in outcome.leaves
            if before is not None and identity(before.value.memory) in used
        ]
        states = [
            (leaf, before, after) for leaf, before, after in outcome.leaves
            if after is not before or after is None
        ]  # fmt: skip
        self._set = [leaf for leaf, _, after in states if after is None]
        pairs = [(leaf, after) for leaf, _, after in states if after is not None]
        self._owners = [leaf for leaf, _ in pairs]
        self._gradients = [after for _, after in pairs]
        #: Whether what a run leaves behind is as it was before.
        self._repeats = all((before is None) == (after is None) for _, before, after in states)
        memories = [(after.storage, after.memory)[1] for after in self._gradients]
        self._alone = [*self._gradients, *memories]
        known = set(map(id, self._gradients))
        changed = sum(1 for x in self._replays.changed if id(x) in known)
        #: How often all of them are held: by two lists, and memory by its gradient and storage.
        self._held = (2 * _ALONE + 3) * len(pairs) + changed

    def fits(self, unchanged: bool) -> bool:
        """Whether gradients are as they were before the call, and nobody holds those of it.

        `unchanged`: nobody has set one, or changed data, since the last replay.
        """
        if unchanged:
            holders = len(self._owners)
            fits = self._repeats
        else:
            holders = sum(map(is_, map(_GRAD, self._owners), self._gradients))
            fits = (
                [gradient is None for gradient in map(_GRAD, self._leaves)] == self._unset
                and all(leaf.grad is gradient for leaf, gradient in self._fixed)
                and self.versions_now() == self.versions
            )
        return fits and sum(map(getrefcount, self._alone)) == self._held + holders

    def versions_now(self) -> list[int]:
        """How often the class indices that are no arguments have been changed."""
        return [x.version for x in self._checked]

    def prepared(self, tensors: Sequence[Tensor]) -> Sequence[Any]:
        """The arguments for `run`; raises what the step would, and nothing has been done."""
        return self._replays.fitting([tensors[i] for i in self._read])

    def run(self, data: Sequence[Any], arguments: Sequence[Any], changes: int) -> Any:
        """Do it again; gives what the step would. `changes`: how many there had been."""
        buffers = [self._stream.allocate(size, DTYPES["uint8"]) for size in self._sizes]
        for uses, buffer in zip(self._uses, buffers, strict=True):
            self._replays.bind(uses, buffer)
        self._replays.enqueue(data)
        self.changes = changes + len(self._replays.changed)
        for leaf, gradient in zip(self._owners, self._gradients, strict=True):
            if leaf.grad is not gradient:
                leaf.grad = gradient
                self.changes += 1
        for leaf in self._set:
            if leaf.grad is not None:
                leaf.grad = None
                self.changes += 1
        return self._make(arguments, buffers)
