"""Slabs: the flat state buffers of parameters on one device and in one dtype.

A slab has one buffer per state (a moment, say) for all its parameters. It updates
any of them in as few launches as possible; on the NumPy path with NumPy.

Parameters of half precision have a master as well: their values in single precision, which
the updates add up in. A step rounds it to the parameter. Where the parameter is anything else
than that when the next step begins, it has been changed, and the master follows; so a new
master begins as zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Tensor, capturing, on_host, on_replay
from netcl_core.errors import NetclError
from netcl_plugin_optim.gate import Gate, Skip, Stepwise, counting, settle
from netcl_plugin_optim.rule import Rule

#: A kernel's arguments may take 1,024 bytes on every OpenCL device. A parameter takes 32 (two
#: pointers and two numbers), so that 24 of them leave room for states and for scalars.
_ARGUMENTS: Final = 1024
_PER_LAUNCH: Final = 24
_PARAMETER: Final = 32
_POINTER: Final = 8
#: Elements per work-item and items per group: one large run on CPUs, one vector on GPUs.
_CPU_CHUNK: Final = 4096
_GPU_LOCAL: Final = 128
_SUBSETS: Final = 256  # of parameters that have a gradient, for which launches are kept
_MASTER: Final = "master"
_ALIGN: Final = 16  # elements; where a parameter's states begin is a multiple
#: Rules that one launch may have: which one is a parameter's stands in the bits that the
#: alignment leaves free.
ROWS: Final = _ALIGN


class OptimizerStateError(NetclError, ValueError):
    """A saved state does not fit an optimizer; nothing was changed.

    >>> optimizer = optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    >>> try:
    ...     optimizer.load_state_dict({"state": {}, "param_groups": []})
    ... except optim.OptimizerStateError as error:
    ...     print("refused")
    refused
    """


@final
class Slot:
    """A parameter's place: its slab, the offset of its states there, its count of steps.

    While there is a `gate`, the count has steps in it that may have been skipped.
    The gradient of a parameter is its own, or the `source`, if there is one.
    """

    __slots__ = ("gate", "offset", "parameter", "slab", "source", "steps")

    def __init__(
        self,
        parameter: Tensor,
        slab: Slab,
        offset: int,
        steps: int,
        source: Tensor | None = None,
    ) -> None:
        self.parameter = parameter
        self.slab = slab
        self.offset = offset
        self.steps = steps
        self.source = source
        self.gate: Gate | None = None

    @property
    def span(self) -> slice:
        """Where the parameter's elements stand in its slab's states."""
        return slice(self.offset, self.offset + self.parameter.size)


@final
@dataclass(frozen=True, slots=True)
class SlabWork:
    """Parameters of one slab that step together.

    Attributes:
        slots: Theirs; all have been updated equally often.
        rows: For each slot which of the rules is its own.
        rules_of: The rules for a step by its number (from 1), with the settings of now. They
            have one template and equal flags.
    """

    slots: list[Slot]
    rows: list[int]
    rules_of: Callable[[int], Sequence[Rule]]

    def rules(self) -> Sequence[Rule]:
        """The rules of the step that comes next."""
        return self.rules_of(self.slots[0].steps + 1)


@final
class Slab:
    """The states of some parameters of one device and dtype.

    Attributes:
        of_rule: The names of the states that the rule changes.
        names: Those of all.
    """

    def __init__(
        self, device: Device, dtype: str, names: Sequence[str], sizes: Sequence[int]
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.mastered = DTYPES[dtype].wide != dtype
        self.of_rule = tuple(names)
        self.names = (*names, _MASTER) if self.mastered else self.of_rule
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + -(-size // _ALIGN) * _ALIGN)
        self.offsets = ends[:-1]
        self.compute = DTYPES[dtype].wide
        self.states = [Tensor.zeros((ends[-1],), self.compute, device) for _ in self.names]
        self._bound: dict[Any, Bound] = {}
        self._gates: dict[tuple[int, ...], Gate] = {}

    def step(self, work: SlabWork, skip: Skip | None = None) -> None:
        """Update the parameters of some work from their gradients.

        Each replay asks for the rules of its step. With `skip` the device may find that it is
        no step.
        """
        slots = work.slots
        if capturing():
            on_replay(partial(settle, slots, skip and skip.gate))
        if skip is not None:
            skip.count(self._counter(work, skip), lambda: slots[0].steps + 1)
        if not self.device.has_kernels:
            for slot, row in zip(slots, work.rows, strict=True):
                self._step_numpy(slot, row, work, skip)
        else:
            self._launch(work, skip)
        for slot in slots:
            slot.parameter.mark_changed()
        counted = partial(_count, slots) if skip is None else skip.gate.enter
        counted()
        on_replay(counted)

    def skip(
        self, work: SlabWork, found_inf: Tensor, stepwise: Callable[[], Sequence[Stepwise]]
    ) -> Skip:
        """What may skip a step of some parameters."""
        key = tuple([slot.offset for slot in work.slots])
        if key not in self._gates:
            scalars = sum(len(rule.names) for rule in stepwise())
            self._gates[key] = Gate(self.device, work.slots, scalars, self.compute)
        return Skip(found_inf, self._gates[key], stepwise)

    def _counter(self, work: SlabWork, skip: Skip) -> Bound | None:
        """The kernel that counts; NumPy needs none."""
        if not self.device.has_kernels:
            return None
        rule, stepwise = work.rules()[0], skip.stepwise()
        key = "count", rule.template, rule.flags, len(stepwise)
        if key not in self._bound:
            context = {
                **dict(rule.flags),
                "settings": tuple(stepwise[0].settings),
                "stepwise": stepwise[0].names,
                "rows": len(stepwise),
                "compute": DTYPES[self.compute].compute,
                "counting": True,
            }
            template = rule.template if stepwise[0].names else "optim/count.cl.j2"
            self._bound[key] = counting(self.device, template, f"{rule.name}_count", context)
        return self._bound[key]

    def _launch(self, work: SlabWork, skip: Skip | None) -> None:
        rules = work.rules()
        stepwise = () if skip is None else skip.stepwise()[0].names
        row_bytes = (len(rules[0].scalars) - len(stepwise)) * DTYPES[self.compute].itemsize
        fixed = (len(self.states) + (0 if skip is None else 2)) * _POINTER
        row_bytes += 0 if skip is None else _POINTER
        for slots, rows in _portions(work, fixed, row_bytes):
            used = list(dict.fromkeys(rows))
            bound = self._bound_for(slots, rows, used, rules[0], None if skip is None else stepwise)
            inputs = [
                (slot.parameter.grad.value if slot.source is None else slot.source).buffer
                for slot in slots
            ]
            if skip is not None:
                inputs += [skip.found_inf.buffer, skip.gate.now.buffer]
            scalars = _scalars(rules, used, stepwise)
            with ag.written_back([slot.parameter for slot in slots]) as parameters:
                outputs = [tensor.buffer for tensor in (*self.states, *parameters)]
                bound(inputs, outputs, scalars, partial(_scalars_at_replay, work, used, stepwise))

    def _bound_for(
        self,
        slots: Sequence[Slot],
        rows: Sequence[int],
        used: Sequence[int],
        rule: Rule,
        stepwise: tuple[str, ...] | None,
    ) -> Bound:
        key = (tuple([slot.offset for slot in slots]), tuple(rows), rule.flags, stepwise)
        bound = self._bound.get(key)
        if bound is None:
            if len(self._bound) >= _SUBSETS:
                self._bound.clear()
            bound = self._bound[key] = self._bind(slots, rows, used, rule, stepwise)
        return bound

    def _bind(
        self,
        slots: Sequence[Slot],
        rows: Sequence[int],
        used: Sequence[int],
        rule: Rule,
        stepwise: tuple[str, ...] | None,
    ) -> Bound:
        """One launch: all states are outputs 0.., then come the parameters in order.

        With `stepwise` it can be skipped, and these scalars lie on the device.
        """
        dtype, gpu = DTYPES[self.dtype], self.device.kind == "gpu"
        chunk, local = (4, _GPU_LOCAL) if gpu else (_CPU_CHUNK, 1)
        count, states = len(slots), len(self.states)
        sizes = [slot.parameter.size for slot in slots]
        gated = stepwise is not None
        scalars = tuple([name for name in rule.scalars if name not in (stepwise or ())])
        args: list[tuple[str, Any]] = []
        for k in range(count):
            args += [("out", states + k), ("in", k)]
        args += [("out", k) for k in range(states)]
        args += [("in", count), ("in", count + 1)] if gated else []
        args += [("scalar", k) for k in range(len(scalars) * len(used))]
        args += [("ulong", row * len(stepwise)) for row in used] if stepwise is not None else []
        for slot, row, size in zip(slots, rows, sizes, strict=True):
            args += [("ulong", size), ("ulong", slot.offset + used.index(row))]
        context = {
            **dict(rule.flags),
            "count": count,
            "rows": len(used),
            "most_rows": ROWS,
            "states": self.names,
            "mastered": self.mastered,
            "gated": gated,
            "stepwise": stepwise or (),
            "scalars": scalars,
            "storage": dtype.storage,
            "compute": dtype.compute,
            "chunk": chunk,
            "local": local,
            "vector": 4 if gpu else 16,
            "aligned": gpu,
            "counting": False,
        }
        blocks = sum(-(-size // (chunk * local)) for size in sizes)
        geometry = (blocks * local,), (local,)
        kernel = Kernel(rule.template, f"{rule.name}_step", tuple(args), *geometry, context)
        ctypes = (dtype.compute,) * (len(scalars) * len(used))
        return Bound(self.device, Kernels((kernel,), scalars=ctypes), (), ())

    def _step_numpy(self, slot: Slot, row: int, work: SlabWork, skip: Skip | None) -> None:
        inputs = [slot.parameter.grad.value if slot.source is None else slot.source]
        if skip is not None:
            inputs += [skip.found_inf, skip.gate.skipped]
        span, shape = slot.span, slot.parameter.shape

        def run(given: Sequence[Any], target: Any, *states: Any) -> None:
            overflow, skipped = [int(flag.item()) for flag in given[1:]] or (0, 0)
            if overflow:
                return
            rule = work.rules_of(slot.steps + 1 - skipped)[row]
            slices = [state[span].reshape(shape) for state in states]
            own = dict(zip(self.names, slices, strict=True))
            values = own.pop(_MASTER) if self.mastered else target
            if self.mastered:
                _follow(values, target)
            rule.apply(values, given[0].astype(self.compute), own)
            if self.mastered:
                target[...] = values

        on_host(run, inputs, [slot.parameter, *self.states])

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """All of one state on the host; waits for the device."""
        return self.states[self.names.index(name)].to_host()

    def write(self, name: str, flat: np.ndarray[Any, Any]) -> None:
        """Replace all of one state."""
        self.states[self.names.index(name)].overwrite(flat)


def _portions(
    work: SlabWork, fixed: int, row_bytes: int
) -> Iterator[tuple[Sequence[Slot], Sequence[int]]]:
    """The slots and rows of each launch: as many as its arguments have room for."""
    slots, rows = work.slots, work.rows
    if not rows[-1]:  # one row, for which there is always room
        for first in range(0, len(slots), _PER_LAUNCH):
            yield slots[first : first + _PER_LAUNCH], rows[first : first + _PER_LAUNCH]
        return
    first, used = 0, {rows[0]}
    for k, row in enumerate(rows):
        used.add(row)
        size = fixed + len(used) * row_bytes + (k - first + 1) * _PARAMETER
        if k > first and (k - first == _PER_LAUNCH or size > _ARGUMENTS):
            yield slots[first:k], rows[first:k]
            first, used = k, {row}
    yield slots[first:], rows[first:]


def _scalars(
    rules: Sequence[Rule], used: Sequence[int], stepwise: Sequence[str]
) -> tuple[float, ...]:
    """The scalars of the rules in use, row after row, but those that lie on the device."""
    if len(used) == 1 and not stepwise:
        return tuple(rules[used[0]].scalars.values())
    return tuple([value for row in used for value in rules[row].without(stepwise)])


def _scalars_at_replay(
    work: SlabWork, used: Sequence[int], stepwise: Sequence[str]
) -> tuple[float, ...]:
    return _scalars(work.rules(), used, stepwise)


def _count(slots: Sequence[Slot]) -> None:
    for slot in slots:
        slot.steps += 1


def _follow(master: Any, parameter: Any) -> None:
    """Take over the elements of a parameter that are no roundings of its master."""
    rounded = master.astype(parameter.dtype)
    np.copyto(master, parameter, where=rounded.view(np.uint16) != parameter.view(np.uint16))
