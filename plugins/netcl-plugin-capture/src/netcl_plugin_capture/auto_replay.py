"""auto_replay: a training step that replays by itself once two calls of it were equal."""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, final

import numpy as np

from netcl_core import Device, Tensor, default_device, is_grad_enabled
from netcl_core.autograd import Node
from netcl_core.errors import ReplayError
from netcl_core.inspect.recorded import process, thread, times_told
from netcl_core.inspect.streams import own_stream, stream_of
from netcl_core.plugins.protocol import registry
from netcl_plugin_capture.capture import is_free
from netcl_plugin_capture.commands import identity
from netcl_plugin_capture.graph_outputs import mapped
from netcl_plugin_capture.recording import recording_by
from netcl_plugin_capture.replayed_step import NotReplayedError, ReplayedStep, StepOutcome
from netcl_plugin_capture.step_recording import StepRecording
from netcl_plugin_capture.step_watch import StepWatch
from netcl_plugin_capture.watched_values import UnwatchedError
from netcl_plugin_capture.witness import Witness

#: So many signatures are kept at a time: each graph keeps the memory between its ops.
_SIGNATURES: Final = 8
#: So many states of what a step reads are kept of a signature, such as training and evaluation.
_STATES: Final = 2
#: So many new ones in a row without a replay are too many.
_DIFFERENT: Final = 64
#: So often what a step reads may change in a row, before it is run plainly for good.
_CHANGES: Final = 8
#: What a change counts that the step makes itself.
_BY_ITSELF: Final = 4
_SIMPLE: Final = frozenset({int, bool, str, bytes, type(None), type(Ellipsis)})
_NUMBERS: Final = frozenset({float, complex})


@final
class _StepArguments:
    """The arguments of a call.

    Attributes:
        key: What tells calls apart.
        tensors: The tensors among them.
        shown: These as they were given.
        slices: The addresses of what some are slices of; a replay gets copies of them.
        objects: What counts by its identity.
        why: Why they cannot be those of a replay; empty: they can.
    """

    __slots__ = ("key", "objects", "shown", "slices", "tensors", "why")

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.tensors: list[Tensor] = []
        self.shown: list[Any] = []
        self.objects: list[Any] = []
        self.why = ""
        self.slices: set[int] = set()
        key: list[Any] = []
        self._add(args, key)
        for name in kwargs:
            key.append(name)
            self._add((kwargs[name],), key)
        self.key = tuple(key)

    def _add(self, values: Sequence[Any], key: list[Any]) -> None:
        for value in values:
            kind = type(value)
            if isinstance(value, Tensor):
                self._tensor(value, key)
            elif kind in _SIMPLE:
                key += kind, value
            elif kind in _NUMBERS:
                key += kind, repr(value)  # 0.0 is not -0.0
            elif kind is tuple or kind is list:
                key += kind, len(value)
                self._add(value, key)
            elif kind is dict:
                key += kind, len(value)
                for name, item in value.items():
                    self._add((name, item), key)
            elif isinstance(value, np.ndarray):
                self.why = "an argument is an array of the host: give a tensor, nc.tensor(x)"
            elif isinstance(value, np.generic):
                key += kind, value.tobytes()
            else:
                key += kind, id(value)
                self.objects.append(value)

    def owned(self) -> list[Tensor]:
        """The tensors, each with memory of its own: of a slice a copy."""
        if not self.slices:
            return self.tensors
        return [x if x.geometry is None else x.duplicate() for x in self.tensors]

    def _tensor(self, value: Tensor, key: list[Any]) -> None:
        x = value.value
        if value.requires_grad:
            self.why = "an argument needs a gradient"
        elif x.memory is None:
            self.why = "an argument has no elements"
        elif x.geometry is not None:
            self.slices.add(identity(x.memory))
            if not x.geometry.is_contiguous:
                self.why = "an argument is a view with gaps: give x.contiguous()"
        elif any(x.memory is other.memory for other in self.tensors):
            self.why = "two arguments share their memory"
        elif self.tensors and x.device is not self.tensors[0].device:
            self.why = "the arguments are on several devices"
        key += type(value) is Node, x.shape, x.dtype, x.device
        self.tensors.append(x)
        self.shown.append(value)


@final
class _StepState:
    """A step in one state of what it reads: recorded twice, then replayed.

    Attributes:
        watch: What it reads.
        graph: The recorded call; None: there is none yet.
    """

    def __init__(self, watch: StepWatch) -> None:
        self.watch = watch
        self.graph: ReplayedStep | None = None
        self._first: tuple[list[Any], StepOutcome] | None = None
        self._settles = True  # whether the first recording may have made what outlasts it

    def holds(self, changes: int) -> bool:
        """Whether what it reads is as it was, when tensors have been changed so often."""
        return self.watch.holds(self.graph is not None and self.graph.changes == changes)

    def record(
        self, device: Device, plainly: functools.partial[Any], arguments: _StepArguments
    ) -> tuple[Any, str]:
        """Call the step and take it down; gives the result, and why it is never replayed."""
        tensors = arguments.owned()
        copies = {
            id(x): y for x, y in zip(arguments.shown, tensors, strict=True) if y is not x.value
        }
        called = plainly
        if copies:
            given = mapped((plainly.args, plainly.keywords), lambda x: copies.get(id(x), x))
            called = functools.partial(plainly.func, *given[0], **given[1])
        begun = [(leaf, leaf.grad) for leaf in self.watch.tensors.values()]
        recording = StepRecording(device, {identity(x.memory): i for i, x in enumerate(tensors)})
        try:
            with recording_by(recording, "auto_replay"), Witness(self.watch) as witness:
                result = called()
        except ReplayError as error:
            if not (self.watch.holds() and recording.undo()):
                raise
            for leaf, gradient in begun:
                leaf.grad = gradient
            return plainly(), str(error).partition(";")[0]
        finally:
            recording.close()
        why = recording.why or witness.why
        if not why:
            shown = [copies.get(id(x), x) for x in arguments.shown]
            try:
                outcome = StepOutcome(recording, shown, result, begun)
                why = self._compared(recording, outcome, tensors, arguments.slices)
            except (NotReplayedError, ReplayError) as error:
                why = str(error)
        if copies:
            views = {id(copies[id(x)]): x for x in arguments.shown if id(x) in copies}
            result = mapped(result, lambda x: views.get(id(x), x))
        return result, why

    def _compared(
        self,
        recording: StepRecording,
        outcome: StepOutcome,
        tensors: Sequence[Tensor],
        slices: set[int],
    ) -> str:
        """Take in a recording; the second one is kept if it is like the first."""
        for x in self.watch.tensors.values():
            if recording.role(x.memory)[0] == "argument" or identity(x.memory) in slices:
                return "an argument is of the memory of a tensor that its code reads"
        rows = recording.described()
        first, self._first = self._first, (rows, outcome)
        if first is None:
            return ""
        self._first = None
        why = _difference(first[0], rows)
        if why and self._settles and _outlasting(first[0]) == _outlasting(rows):
            self._settles, self._first = False, (rows, outcome)
            return ""
        if not why and first[1].form != outcome.form:
            why = "two calls gave results or left gradients of another kind"
        if not why:
            self.graph = ReplayedStep(recording, outcome, tensors)
        return why


def _outlasting(rows: Any) -> Any:
    """Rows in which memory that was made to outlast a call is like that of before."""
    if isinstance(rows, (list, tuple)):
        if len(rows) == 2 and rows[0] in ("beside", "before"):
            return ["outlasting"]
        return [_outlasting(part) for part in rows]
    return rows


def _difference(first: list[Any], second: list[Any]) -> str:
    """In what two calls differ; empty: in nothing."""
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        if one != other:
            what = " ".join(str(part) for part in one[:2] if isinstance(part, str) and part)
            return f"two calls differ in command {number} ({what})"
    if len(first) != len(second):
        return f"one call did {len(first)} things, and the next {len(second)}"
    return ""


@final
class _StepSignature:
    """The calls of one signature.

    Attributes:
        why: Why they are run plainly for good; empty: they are not.
        objects: Those whose identities are a part of the key.
    """

    def __init__(self, objects: list[Any]) -> None:
        self.why = ""
        self.objects = objects
        self._states: list[_StepState] = []
        self._changes = self._calls = self._replayed = 0

    def call(self, step: AutoReplay, arguments: _StepArguments, args: Any, kwargs: Any) -> Any:
        """The result of a call, replayed if it can be."""
        plainly = functools.partial(step.__wrapped__, *args, **kwargs)
        self._calls += 1
        if self.why:
            return plainly()
        changes = times_told(changes_only=True)
        state = next((state for state in self._states if state.holds(changes)), None)
        if state is not None and state.graph is not None:
            return self._replay(state, state.graph, plainly, arguments, changes)
        if sys.getprofile() is not None:
            return plainly()
        device = arguments.tensors[0].device if arguments.tensors else default_device()
        if state is None:
            return self._begin(step, device, plainly)
        try:
            result, self.why = state.record(device, plainly, arguments)
        except BaseException:
            self._states.remove(state)
            raise
        self._settle(state)
        return result

    def _begin(self, step: AutoReplay, device: Device, plainly: Callable[[], Any]) -> Any:
        """A plain call, the first in a state of what it reads, seen by a witness."""
        if self._states:
            self._count(f"{self._states[-1].watch.changed()} changes between calls")
        watch = None if self.why else step.watch_of(self.objects)
        if not isinstance(watch, StepWatch):
            self.why = self.why or watch or ""
            return plainly()
        if any(x.device is not device for x in watch.tensors.values()):
            self.why = "it reads a tensor on another device"
            return plainly()
        with Witness(watch, loads=True) as witness:
            result = plainly()
        state = _StepState(watch)
        self._states = [*self._states[1 - _STATES :], state]
        self.why = witness.why
        self._settle(state)
        return result

    def _settle(self, state: _StepState) -> None:
        """Let go of a state that does not last, or of all for good."""
        if self.why:
            self._states.clear()
        elif not state.watch.holds():
            self._states.remove(state)
            self._count(f"the step itself changes {state.watch.changed()}", _BY_ITSELF)

    def _count(self, why: str, weight: int = 1) -> None:
        self._changes += weight
        if self._changes > _CHANGES:
            self.why = why
            self._states.clear()

    def _replay(
        self,
        state: _StepState,
        graph: ReplayedStep,
        plainly: Callable[[], Any],
        arguments: _StepArguments,
        changes: int,
    ) -> Any:
        if not graph.fits(changes == graph.changes):
            versions = graph.versions_now()
            result = plainly()
            graph.versions = versions  # the step has checked them
            return result
        try:
            data = graph.prepared(arguments.owned())
        except ReplayError as error:
            self._states.remove(state)
            self._count(str(error))
            return plainly()
        except Exception:  # what the step raises, at its own place
            return plainly()
        self._changes = 0
        self._replayed += 1
        return graph.run(data, arguments.shown, changes)

    @property
    def replays(self) -> bool:
        """Whether there is a recorded call."""
        return any(state.graph is not None for state in self._states)

    def __str__(self) -> str:
        if self.why:
            return f"stays eager: {self.why}"
        kernels = [str(state.graph.kernels) for state in self._states if state.graph is not None]
        if kernels:
            often = f"{self._replayed} of {self._calls} calls"
            return f"replays {' or '.join(kernels)} kernels, so far in {often}"
        return "two equal calls are waited for"


@final
class AutoReplay:
    """What `auto_replay` returns: call it as the function that it wraps."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._signatures: dict[Any, _StepSignature] = {}
        self._lock = threading.Lock()
        self._plainly = ""
        self._watches: dict[tuple[int, ...], list[StepWatch] | str] = {}
        self._fresh = 0  # signatures since the last replay

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        return AutoReplay, (self.__wrapped__,)

    def __repr__(self) -> str:
        return f"<auto_replay of {self.__wrapped__!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.__wrapped__
        if not is_free():
            return function(*args, **kwargs)
        arguments = _StepArguments(args, kwargs)
        device = default_device()
        if arguments.tensors:
            device = arguments.tensors[0].device
        if arguments.why or not device.has_kernels or stream_of(device) is not own_stream(device):
            self._plainly = arguments.why or "there are no kernels on its device"
            return function(*args, **kwargs)
        if (process.anomaly if thread.anomaly is None else thread.anomaly) or (
            thread.tape is not None and thread.tape is not thread.implicit
        ):
            self._plainly = "a tape or anomaly mode is on"
            return function(*args, **kwargs)
        if not self._lock.acquire(blocking=False):  # another thread, or the step calls itself
            return function(*args, **kwargs)
        try:
            signature = self._of(arguments)
            if signature.replays:
                self._fresh = 0
            return signature.call(self, arguments, args, kwargs)
        finally:
            self._lock.release()

    def _of(self, arguments: _StepArguments) -> _StepSignature:
        policy = None if thread.amp is None else thread.amp.policy
        modes = is_grad_enabled(), policy, thread.chosen, registry.version, default_device()
        key = arguments.key, modes
        signature = self._signatures.pop(key, None)
        if signature is None:
            if len(self._signatures) >= _SIGNATURES:
                self._forget(next(iter(self._signatures)))
            signature = _StepSignature(arguments.objects)
            self._fresh += 1
            if self._fresh > _DIFFERENT:
                signature.why = "its arguments have other shapes or values at each call"
        self._signatures[key] = signature  # behind all that were used before
        return signature

    def _forget(self, key: Any) -> None:
        """Let go of a signature, and of the objects among its arguments."""
        objects = self._signatures.pop(key).objects
        if objects:
            self._watches.pop(tuple(map(id, objects)), None)

    def watch_of(self, objects: list[Any]) -> StepWatch | str:
        """What the step reads as it is now; a text says why that cannot be watched."""
        key = tuple(map(id, objects))
        known = self._watches.setdefault(key, [])
        if isinstance(known, str):
            return known
        watch = next((watch for watch in known if watch.holds()), None)
        if watch is None:
            try:
                watch = StepWatch(self.__wrapped__, objects)
            except Exception as error:  # of an object's own code, or objects within objects
                own = isinstance(error, UnwatchedError)
                why = str(error) if own else f"what it reads cannot be watched ({error!r})"
                self._watches[key] = why
                return why
            self._watches[key] = [*known[1 - _STATES :], watch]
        return watch

    def explain(self) -> str:
        """What becomes of the calls so far, a line for each signature."""
        lines = [f"{_shown(key)}: {signature}" for (key, _), signature in self._signatures.items()]
        if self._plainly:
            lines.append(f"other calls are plain: {self._plainly}")
        return "\n".join(lines) or "it has not been called"


def _shown(key: Sequence[Any]) -> str:
    """The tensors of a signature."""
    shapes = [
        f"{dtype}{list(shape)}"
        for shape, dtype in itertools.pairwise(key)
        if type(shape) is tuple and isinstance(dtype, str)
    ]
    return ", ".join(shapes) or "no tensors"


def auto_replay(function: Callable[..., Any]) -> AutoReplay:
    """A training step that replays by itself, once two calls of it were equal.

    >>> w = nc.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.5)
    >>> @nc.auto_replay
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = ag.sum(ag.square(x * w))
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> losses = [step(nc.tensor([0.5, 0.0, 1.0])) for _ in range(5)]
    >>> [round(loss.item(), 3) for loss in losses]
    [9.25, 0.141, 0.079, 0.044, 0.025]

    It gives what the plain function gives, bit for bit, only sooner. The first call of a
    signature is plain, and the next two are taken down as they run. If these are equal, later
    calls replay their commands, as `ag.capture` does. Anything that a replay would not do keeps
    the function as it is: `step.explain()` says what.

    Args:
        function: The step. Its arguments are tensors, and whatever else it takes. Results of a
            replay are tensors of their own, without a graph of gradients.

    Returns:
        An object that is called as the function.
    """
    return AutoReplay(function)
