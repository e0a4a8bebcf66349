"""Slabs: the flat state buffers of a group's parameters on one device and in one dtype.

A slab has one buffer per state (a moment, say) for all its parameters. It updates
any of them in as few launches as possible; on the NumPy path with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Tensor, on_host, on_replay
from netcl_core.errors import NetclError

#: Parameters per launch: 24 * (2 pointers + 2 numbers) stay below the 1,024 bytes that
#: OpenCL grants for a kernel's arguments.
_PER_LAUNCH: Final = 24
#: Elements per work-item and items per group: one large run on CPUs, one vector on GPUs.
_CPU_CHUNK: Final = 4096
_GPU_LOCAL: Final = 128
_SUBSETS: Final = 256  # of parameters that have a gradient, for which launches are kept
_ALIGN: Final = 16  # elements; where a parameter's states begin is a multiple

#: The NumPy form of a rule: `(p, g, *states, **scalars)`, changing p and states in place.
Update = Callable[..., None]
#: What of a rule its kernel is built for, such as whether there is weight decay.
Flags: TypeAlias = tuple[tuple[str, bool], ...]


class OptimizerStateError(NetclError, ValueError):
    """A saved state does not fit an optimizer; nothing was changed."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What a step does: its template with flags, its scalars by name, and the NumPy form."""

    template: str
    flags: Flags
    scalars: Mapping[str, float]
    update: Update


@final
class Slot:
    """A parameter's place: its slab, the offset of its states there, its count of steps."""

    __slots__ = ("offset", "parameter", "slab", "steps")

    def __init__(self, parameter: Tensor, slab: Slab, offset: int, steps: int) -> None:
        self.parameter = parameter
        self.slab = slab
        self.offset = offset
        self.steps = steps

    @property
    def span(self) -> slice:
        """Where the parameter's elements stand in its slab's states."""
        return slice(self.offset, self.offset + self.parameter.size)


@final
class Slab:
    """The states of some parameters of one device and dtype."""

    def __init__(
        self, device: Device, dtype: str, names: Sequence[str], sizes: Sequence[int]
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.names = tuple(names)
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + -(-size // _ALIGN) * _ALIGN)
        self.offsets = ends[:-1]
        compute = "float64" if dtype == "float64" else "float32"
        self.states = [Tensor.zeros((ends[-1],), compute, device) for _ in names]
        self._bound: dict[Any, Bound] = {}

    def step(self, slots: Sequence[Slot], rule: Rule, rule_of: Callable[[int], Rule]) -> None:
        """Update some parameters, which have been updated equally often, from their gradients.

        `rule` says how; each replay asks `rule_of` for that of its step, by the step's number.
        """

        def again() -> Rule:
            return rule_of(slots[0].steps + 1)

        if self.device.backend == "numpy":
            for slot in slots:
                self._step_numpy(slot, again)
        else:
            for first in range(0, len(slots), _PER_LAUNCH):
                self._launch(slots[first : first + _PER_LAUNCH], rule, again)
        for slot in slots:
            slot.parameter.mark_changed()
        _count(slots)
        on_replay(partial(_count, slots))

    def _launch(self, slots: Sequence[Slot], rule: Rule, again: Callable[[], Rule]) -> None:
        key = (tuple([slot.offset for slot in slots]), rule.flags)
        bound = self._bound.get(key)
        if bound is None:
            if len(self._bound) >= _SUBSETS:
                self._bound.clear()
            kernels = self._kernels(slots, rule)
            bound = self._bound[key] = Bound(self.device, kernels, (), ())
        gradients = []
        outputs = [state.buffer for state in self.states]
        for slot in slots:
            gradients.append(slot.parameter.grad.value.buffer)  # it is due
            outputs.append(slot.parameter.buffer)
        scalars = tuple(rule.scalars.values())
        bound(gradients, outputs, scalars, lambda: tuple(again().scalars.values()))

    def _kernels(self, slots: Sequence[Slot], rule: Rule) -> Kernels:
        """One launch: all states are outputs 0.., then come the parameters in order."""
        dtype, gpu = DTYPES[self.dtype], self.device.kind == "gpu"
        chunk, local = (4, _GPU_LOCAL) if gpu else (_CPU_CHUNK, 1)
        count, states = len(slots), len(self.states)
        sizes = [slot.parameter.size for slot in slots]
        args: list[tuple[str, Any]] = []
        for k in range(count):
            args += [("out", states + k), ("in", k)]
        args += [("out", k) for k in range(states)]
        args += [("scalar", k) for k in range(len(rule.scalars))]
        for slot, size in zip(slots, sizes, strict=True):
            args += [("ulong", size), ("ulong", slot.offset)]
        context = {
            **dict(rule.flags),
            "count": count,
            "states": self.names,
            "scalars": tuple(rule.scalars),
            "storage": dtype.storage,
            "compute": dtype.compute,
            "chunk": chunk,
            "local": local,
            "vector": 4 if gpu else 16,
            "aligned": gpu,
        }
        blocks = sum(-(-size // (chunk * local)) for size in sizes)
        entry = rule.template.partition("/")[2].partition(".")[0] + "_step"
        kernel = Kernel(rule.template, entry, tuple(args), (blocks * local,), (local,), context)
        return Kernels((kernel,), scalars=(dtype.compute,) * len(rule.scalars))

    def _step_numpy(self, slot: Slot, rule_of: Callable[[], Rule]) -> None:
        gradient = slot.parameter.grad.value  # the slot is due
        compute = np.dtype("float64" if self.dtype == "float64" else "float32")
        span, shape = slot.span, slot.parameter.shape

        def run(given: Sequence[Any], target: Any, *states: Any) -> None:
            rule = rule_of()
            values = target.astype(compute, copy=False)
            own = [state[span].reshape(shape) for state in states]
            rule.update(values, given[0].astype(compute), *own, **rule.scalars)
            if values is not target:
                target[...] = values

        on_host(run, [gradient], [slot.parameter, *self.states])

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """All of one state on the host; waits for the device."""
        return self.states[self.names.index(name)].to_host()

    def write(self, name: str, flat: np.ndarray[Any, Any]) -> None:
        """Replace all of one state."""
        self.states[self.names.index(name)].copy_(flat)


def _count(slots: Sequence[Slot]) -> None:
    for slot in slots:
        slot.steps += 1
