"""Optimizer: the base of all: settings per group, the step, saving and loading.

A subclass checks its settings, names its states, and says what a step does (a Rule).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from netcl_core import Tensor, before_replay
from netcl_core.errors import ReplayError, message
from netcl_plugin_optim.groups import Group, parameter_groups
from netcl_plugin_optim.placement import Placement
from netcl_plugin_optim.slabs import Flags, OptimizerStateError, Rule, Slot

#: What schedules of learning rates keep in a group.
_KEPT: Final = ("initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum")
#: Settings of PyTorch's that would need other formulas.
_OTHER: Final = ("amsgrad", "maximize")


class Optimizer(ABC):
    """Changes parameters from their gradients.

    `param_groups` is a list of dicts with `params` and the settings of these
    parameters, which may be changed between steps; `lr` reads and sets the learning
    rate of all groups. Parameters without a gradient are left as they are.
    """

    def __init__(self, params: Iterable[Any], **defaults: Any) -> None:
        self.defaults = defaults
        self.param_groups = parameter_groups(type(self).__name__, params, defaults)
        self._placement = Placement()
        for group in self.param_groups:
            self._check(group)

    @abstractmethod
    def _check(self, group: Group) -> None:
        """Raise AttributeValueError if a group's settings cannot be used."""

    @abstractmethod
    def _states(self, group: Group) -> tuple[str, ...]:
        """The names of the states that each parameter of a group has."""

    @abstractmethod
    def _rule(self, group: Group, steps: int) -> Rule:
        """What the step does that is number `steps` (from 1) of its parameters."""

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it sets that of all groups."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or replace them by zeros."""
        for p in self._parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = Tensor.zeros(p.shape, p.dtype, p.device)

    def step(self) -> None:
        """Update every parameter that has a gradient; does not wait for the device.

        Inside a capture, each replay is a step too, with the settings of then.

        One launch for all parameters that share a group, device, dtype and count of
        steps (24 at most).
        """
        for group in self.param_groups:
            due = [p for p in group["params"] if p.grad is not None and p.size]
            batches = self._placement.batches(group["params"], due, self._states(group))
            for (slab, steps), slots in batches.items():
                rule = self._rule(group, steps + 1)
                before_replay(
                    partial(self._check_replay, group, self._placement, slots, rule.flags)
                )
                slab.step(slots, rule, partial(self._rule, group))

    def _check_replay(
        self, group: Group, placement: Placement, slots: list[Slot], flags: Flags
    ) -> None:
        """Raise ReplayError if a captured step is no longer one of this optimizer's."""
        if placement is not self._placement or not placement.has(slots):
            raise self._outdated("states that are no longer used", "the states of the capture")
        if len({slot.steps for slot in slots}) > 1:
            raise self._outdated("parameters updated unequally often", "equal counts of steps")
        now = self._rule(group, slots[0].steps + 1).flags
        if now != flags:
            raise self._outdated(f"the settings {dict(now)}", f"{dict(flags)}, as captured")

    def _outdated(self, given: str, expected: str) -> ReplayError:
        who, remedy = f"{type(self).__name__}.step", "Capture the step anew"
        return ReplayError(message(who, f"a replay with {given}", expected, remedy))

    def state_dict(self) -> dict[str, Any]:
        """Settings and states, with NumPy arrays, laid out as PyTorch's; waits for the device.

        `{"state": {i: {"step": n, <name>: array}}, "param_groups": [...]}`, where `i`
        counts the parameters through all groups.
        """
        number = {id(p): i for i, p in enumerate(self._parameters())}
        state = {
            number[key]: value
            for group in self.param_groups
            for key, value in self._placement.held(group["params"]).items()
        }
        groups = [
            {**group, "params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take over settings and states, PyTorch's too.

        Raises OptimizerStateError or AttributeValueError, and then changes nothing.
        """
        groups, params = saved["param_groups"], self._parameters()
        sizes = [len(group["params"]) for group in self.param_groups]
        given = [len(group["params"]) for group in groups]
        if given != sizes:
            raise self._misfit(f"groups of {given} parameters", f"groups of {sizes}")
        for name in _OTHER:
            if any(group.get(name) for group in groups):
                raise self._misfit(f"{name}=True", f"{name}=False: this form is not there")
        held = dict(self._matched(params, saved["state"]))
        merged = [
            {**group, **{name: other[name] for name in (*self.defaults, *_KEPT) if name in other}}
            for group, other in zip(self.param_groups, groups, strict=True)
        ]
        for group in merged:
            self._check(group)
        self.param_groups = merged
        self._placement = Placement()
        for group in self.param_groups:
            self._placement.place(group["params"], self._states(group), held)

    def _matched(
        self, params: list[Tensor], state: Mapping[Any, Mapping[str, Any]]
    ) -> Iterable[tuple[int, dict[str, Any]]]:
        """The saved states by the id of their parameter, each checked for its shape."""
        for number, entry in state.items():
            if not 0 <= int(number) < len(params):
                raise self._misfit(f"a state of parameter {number}", f"{len(params)} parameters")
            p = params[int(number)]
            values = {name: value for name, value in entry.items() if value is not None}
            for name, value in values.items():
                if name != "step" and np.shape(value) != p.shape:
                    given = f"{name} of parameter {number} has shape {np.shape(value)}"
                    raise self._misfit(given, f"{p.shape}")
            yield id(p), values

    def _misfit(self, given: str, expected: str) -> OptimizerStateError:
        who = f"{type(self).__name__}.load_state_dict"
        return OptimizerStateError(message(who, given, expected))

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={self.param_groups[0][k]!r}" for k in self.defaults)
        return f"{type(self).__name__}({len(self._parameters())} parameters, {settings})"
