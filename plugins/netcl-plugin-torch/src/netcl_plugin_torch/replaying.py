"""A compiled graph as a replay: what its ops ask of the device, captured and done again.

The first runs of a signature (shapes, dtypes, strides, numbers, shared memory) go op by op, in
which kernels are built and chosen. The next one is captured. Later ones enqueue its commands with
the memory of their inputs, and give tensors of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, final

import torch
from netcl_plugin_capture.commands import identity
from netcl_plugin_capture.rebinding import Rebound
from netcl_plugin_capture.recording import Recording, recording
from netcl_plugin_linalg.precision import get_float32_matmul_precision

import netcl_core as nc
from netcl_core.errors import ReplayError
from netcl_core.inspect.data import dense
from netcl_core.inspect.streams import own_stream, stream_of
from netcl_plugin_torch.tensor import NetclTensor, record_of, wrap, wrap_later

#: So many runs of a signature go op by op.
_BEFORE: Final = 2
#: So many signatures of a graph are captured at a time: each keeps the memory between its ops.
_MOST: Final = 8
#: So many signatures are counted at a time.
_NOTED: Final = 64


@final
class _Given:
    """The arguments of a run: their memory, each once, and what a capture depends on.

    Attributes:
        key: The signature; None: there is an argument that cannot be bound.
        buffers: The memory.
        first: A tensor on each memory.
    """

    __slots__ = ("_groups", "buffers", "first", "key")

    def __init__(self, args: Sequence[Any]) -> None:
        self.buffers: list[Any] = []
        self.first: list[Any] = []
        self._groups: dict[int, int] = {}
        self.key: Any = None
        key: list[Any] = [get_float32_matmul_precision()]
        with suppress(TypeError):  # of what cannot be bound, or looked up
            self._add(args, key)
            hash(hashable := tuple(key))
            self.key = hashable

    def _add(self, args: Sequence[Any], key: list[Any]) -> None:
        for x in args:
            kind = type(x)
            if kind is NetclTensor:
                record = x.__dict__.get("record")
                if record is None:
                    key.append(self._note(x.raw))
                else:
                    tensors = record.tensors()
                    key.append((len(tensors), record.name))
                    key += [self._note(tensor) for tensor in tensors]
            elif kind is list or kind is tuple:
                key.append(len(x))
                self._add(x, key)
            elif isinstance(x, torch.Tensor):
                raise TypeError("a tensor on the host")
            else:
                key.append((kind, x or str(x)) if kind is float else (kind, x))  # 0.0 is not -0.0

    def _note(self, raw: Any) -> Any:
        memory, geometry = raw.memory, raw.geometry
        if memory is None:
            return raw.shape, raw.dtype
        number = identity(memory)
        group = self._groups.get(number)
        if group is None:
            group = self._groups[number] = len(self.buffers)
            self.buffers.append(memory)
            self.first.append(raw)
        if geometry is None:
            return raw.shape, raw.dtype, group
        return raw.shape, raw.dtype, group, geometry.strides, geometry.offset, raw.storage.size

    def group(self, memory: Any) -> int | None:
        """Which of the buffers a memory is."""
        return self._groups.get(identity(memory))


@final
class Replaying:
    """Runs a function of PyTorch's tensors on netcl, op by op or as a replay.

    Args:
        run: The function of tensors and settings; gives a list of PyTorch's tensors.
    """

    def __init__(self, run: Callable[..., Sequence[Any]]) -> None:
        self._run = run
        self._graphs: dict[Any, _Replay | None] = {}
        self._counts: dict[Any, int] = {}
        self._lock = threading.Lock()
        self._refused = False

    def __call__(self, *args: Any) -> Sequence[Any]:
        device = nc.default_device()
        if self._refused or not device.has_kernels or stream_of(device) is not own_stream(device):
            return self._run(*args)
        given = _Given(args)
        if given.key is None:
            return self._run(*args)
        replay = self._graphs.get(given.key, self)
        if type(replay) is _Replay:
            with self._lock:
                return replay.run(args, given)
        if replay is None:
            return self._run(*args)
        count = self._counts.get(given.key, 0)
        if count < _BEFORE:
            if len(self._counts) >= _NOTED:
                self._counts.clear()
            self._counts[given.key] = count + 1
            return self._run(*args)
        return self._captured(device, args, given)

    def _captured(self, device: Any, args: Sequence[Any], given: _Given) -> Sequence[Any]:
        if len(self._graphs) >= _MOST:
            del self._graphs[next(iter(self._graphs))]
        self._graphs[given.key] = None  # where it cannot be done, and in another thread meanwhile
        fresh = [_anew(x) for x in args]
        try:
            with recording(device, "torch.compile") as taken:
                results = list(self._run(*fresh))
                for x in results:  # what nobody may ever read is read now
                    if type(x) is NetclTensor and record_of(x) is None:
                        _ = x.raw
        except ReplayError:
            self._refused = True
            return self._run(*args)
        places = {id(x): i for i, x in enumerate(fresh) if type(x) is NetclTensor}
        with suppress(TypeError, ValueError):  # with these it goes on op by op
            self._graphs[given.key] = _Replay(taken, given, results, places)
        return [x if id(x) not in places else args[places[id(x)]] for x in results]


def _anew(x: Any) -> Any:
    """The same argument without what an earlier run may have kept with it."""
    if type(x) is list or type(x) is tuple:
        return [_anew(item) for item in x]
    if type(x) is not NetclTensor:
        return x
    record = x.__dict__.get("record")
    if record is not None:
        return wrap_later(x.shape, x.dtype, record.anew(), x.place)
    raw = x.raw
    return wrap(raw if raw.geometry is None else raw.viewed(raw.geometry))


@final
class _Replay:
    """A captured run, and how its results are put together."""

    def __init__(
        self, taken: Recording, given: _Given, results: Sequence[Any], places: dict[int, int]
    ) -> None:
        self._given, self._taken = given, taken
        self._slots: dict[int, int] = {}
        self._outputs: list[Any] = []
        self._recipes: dict[int, Any] = {}
        self._makers = [self._maker(x, places) for x in results]
        self._changed = [group for x in taken.changed.values()
                         if (group := given.group(x.memory)) is not None]  # fmt: skip
        self._checks = [check for each in taken.checks if (check := self._check(each)) is not None]
        self._conditions = taken.conditions
        self._rebound = Rebound(taken, given.buffers, self._outputs)
        del self._given, self._taken, self._outputs, self._recipes  # and with them their memory

    def run(self, args: Sequence[Any], given: _Given) -> list[Any]:
        """The results of other arguments of the same signature."""
        for condition in self._conditions:
            condition()
        for check, operands, settings in self._checks:
            check([make(given.first) if make else x for make, x in operands], settings)
        buffers = self._rebound.run(given.buffers)
        bases: dict[Any, Any] = {}
        results = [args[make] if type(make) is int else make(given.first, buffers, bases)
                   for make in self._makers]  # fmt: skip
        for group in self._changed:
            given.first[group].mark_changed()
        return results

    def _maker(self, x: Any, places: dict[int, int]) -> Any:
        """What makes a result of `(first, buffers, bases)`, or which argument it is."""
        place = places.get(id(x))
        if place is not None:
            return place
        if type(x) is not NetclTensor:
            if isinstance(x, torch.Tensor):
                raise TypeError("a result on the host")
            return lambda *_: x
        record = record_of(x)
        if record is None:
            tensor = self._tensor(x.raw, True)
            return lambda *run: wrap(tensor(*run))
        shape, dtype, which = x.shape, x.dtype, x.place
        leaves = {id(leaf) for leaf in record.leaves}
        parts = [self._tensor(each, id(each) in leaves) for each in record.tensors()]

        recipe = self._recipes.setdefault(id(record), record.recipe())

        def make(first: Any, buffers: Any, bases: Any) -> Any:
            again = bases.get(recipe)  # which the statistics of a call have in common
            if again is None:
                tensors = [part(first, buffers, bases) for part in parts]
                again = bases[recipe] = recipe.make(tensors)
            return wrap_later(shape, dtype, again, which)

        return make

    def _tensor(self, raw: Any, shares: bool) -> Callable[..., Any]:
        """What makes a tensor; with `shares` changes of others on its memory are its own."""
        raw = raw.value
        memory, shape, dtype, geometry = raw.memory, raw.shape, raw.dtype, raw.geometry
        device = raw.device
        of_argument = self._of_argument(raw)
        if of_argument is not None:
            return of_argument
        if memory is None or not self._taken.made(memory):
            return lambda *_: raw
        whole = shape if geometry is None else (raw.storage.size,)
        view = raw.geometry or dense(raw.shape)
        slot = self._slots.setdefault(identity(memory), len(self._slots))
        if slot == len(self._outputs):
            self._outputs.append(memory)

        def make(first: Any, buffers: Any, bases: Any) -> Any:
            base = bases.get(slot)
            if base is None or not shares:
                base = nc.Tensor(buffers[slot], whole, dtype, device)
                if shares:
                    bases[slot] = base
                if geometry is None:
                    return base
            return base.viewed(view)

        return make

    def _of_argument(self, raw: Any) -> Any:
        """What makes a tensor on the memory of an argument; None: it has other memory."""
        group = None if raw is None else self._given.group(raw.memory)
        if group is None:
            return None
        if self._given.first[group].dtype != raw.dtype:
            raise TypeError("elements of another dtype")
        view = raw.geometry or dense(raw.shape)
        return lambda first, *_: first[group].viewed(view)

    def _check(self, check: Any) -> Any:
        """A check of data that are arguments, with what makes its operands; None: of others."""
        function, operands, settings = check
        pairs = [(self._of_argument(x), x) for x in operands]
        return (function, pairs, settings) if any(make for make, _ in pairs) else None
