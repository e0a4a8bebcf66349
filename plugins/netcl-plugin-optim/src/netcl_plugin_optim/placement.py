"""Placement: in which slab and where each parameter's states stand.

States are laid out when a parameter first has a gradient, and anew, with what
they hold, when a parameter has moved to another device or dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from netcl_core import Tensor, uncaptured
from netcl_plugin_optim.gate import settle
from netcl_plugin_optim.slabs import Slab, Slot

#: What parameters hold on the host: by the parameter's id, "step" and arrays by state.
Held: TypeAlias = Mapping[int, Mapping[str, Any]]


@final
class Placement:
    """The slots of an optimizer's parameters."""

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}

    def due(self, params: Sequence[Tensor], names: tuple[str, ...]) -> list[Slot] | None:
        """The slots of those with a gradient and elements; None if one is not where it was."""
        slots = []
        for p in params:
            if p.grad is None or not p.size:
                continue
            slot = self._slots.get(id(p))
            if slot is None or not _fits(slot, names):
                return None
            if slot.gate is not None:
                slot.gate.settle()
            slots.append(slot)
        return slots

    def lay_out(
        self, params: Sequence[Tensor], names: tuple[str, ...], fresh: Callable[[], Held]
    ) -> None:
        """Give parameters places, with what they hold; those without a step what `fresh` says."""
        with uncaptured():
            self.place(params, names, {**fresh(), **self.held(params)})

    def slot(self, p: Tensor) -> Slot:
        """A parameter's slot."""
        return self._slots[id(p)]

    def has(self, slots: Sequence[Slot]) -> bool:
        """Whether these are the slots of their parameters."""
        return all(self._slots.get(id(slot.parameter)) is slot for slot in slots)

    def place(self, params: Sequence[Tensor], names: tuple[str, ...], held: Held) -> None:
        """Lay out states of parameters: zeros, but for what is held. A replay finds them there."""
        kinds: dict[tuple[Any, str], list[Tensor]] = {}
        for p in params:
            kinds.setdefault((p.device, p.dtype), []).append(p)
        for (device, dtype), members in kinds.items():
            slab = Slab(device, dtype, names, [p.size for p in members])
            for p, offset in zip(members, slab.offsets, strict=True):
                entry = held.get(id(p), {})
                steps = int(entry.get("step", 1 if entry else 0))  # PyTorch's SGD counts none
                self._slots[id(p)] = Slot(p, slab, offset, steps)
            for name in slab.names:
                self._fill(slab, name, members, held)

    def _fill(self, slab: Slab, name: str, members: Sequence[Tensor], held: Held) -> None:
        known = [p for p in members if name in held.get(id(p), {})]
        if not known:
            return
        flat = slab.read(name)
        for p in known:
            flat[self._slots[id(p)].span] = np.asarray(held[id(p)][name]).reshape(-1)
        slab.write(name, flat)

    def held(self, params: Sequence[Tensor]) -> dict[int, dict[str, Any]]:
        """What parameters hold, copied to the host; nothing for one without a step."""
        slots = [self._slots[id(p)] for p in params if id(p) in self._slots]
        settle(slots)
        flat = {
            (slab, name): slab.read(name)
            for slab in dict.fromkeys(slot.slab for slot in slots if slot.steps)
            for name in slab.names
        }
        return {
            id(slot.parameter): {
                "step": slot.steps,
                **{
                    name: flat[slot.slab, name][slot.span].reshape(slot.parameter.shape).copy()
                    for name in slot.slab.names
                },
            }
            for slot in slots
            if slot.steps
        }


def _fits(slot: Slot, names: tuple[str, ...]) -> bool:
    """Whether a slot's slab is where its parameter is, with these states."""
    slab, p = slot.slab, slot.parameter
    return slab.device is p.device and slab.dtype == p.dtype and slab.of_rule == names
