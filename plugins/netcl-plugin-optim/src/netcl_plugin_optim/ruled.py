"""RuledOptimizer: an optimizer whose step is one elementwise rule, the same for all parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from netcl_core import Tensor, before_replay
from netcl_core.errors import ArgumentError, DeviceError, ReplayError, message
from netcl_plugin_optim.gate import Gate, Stepwise, settle
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Closure, Optimizer, evaluated
from netcl_plugin_optim.placement import Placement
from netcl_plugin_optim.rule import Flags, Rule
from netcl_plugin_optim.settings import SettingLimit, number
from netcl_plugin_optim.slabs import ROWS, Slab, SlabWork, Slot

_DECAY: Final = ("decay", True)
_SHRINK: Final = ("shrink", True)


class RuledOptimizer(Optimizer):
    """One launch for all parameters that share a device, dtype, form of the rule and count of
    steps (24 at most), whatever their groups: the settings are arguments of the kernel.

    A subclass has a constructor of settings (`settings`), and these attributes.

    Attributes:
        template: The rule as a kernel.
        states: What each parameter has an array of its shape for.
        states_if: More of these, each by the setting that asks for it by not being 0.
        flags: The settings that the kernel is built for.
        scalars: The settings that are arguments of the kernel, as `number` names them.
        counted_from: The settings from which the template computes the scalars that depend on
            the number of the step, for steps that a flag may skip.
        decoupled: Whether the weight decay bypasses the states; a group may say so itself.
    """

    template: ClassVar[str]
    states: ClassVar[tuple[str, ...]] = ()
    states_if: ClassVar[Mapping[str, str]] = {}
    flags: ClassVar[tuple[str, ...]] = ()
    scalars: ClassVar[tuple[str, ...]] = ()
    counted_from: ClassVar[tuple[str, ...]] = ()
    decoupled: ClassVar[bool] = False

    def _begin(
        self, params: Iterable[Any], defaults: dict[str, Any], limits: Mapping[str, SettingLimit]
    ) -> None:
        self._placement = Placement()
        super()._begin(params, defaults, limits)

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        """The scalars of the step that is number `steps` (from 1) which depend on that, in the
        order in which the template computes them.
        """
        return {}

    def _counted_from(self, group: Group) -> dict[str, float]:
        """What the template computes them from."""
        return {name: number(group, name) for name in self.counted_from}

    def _fresh(self, group: Group, p: Tensor) -> dict[str, Any]:
        """The states that do not begin as zeros."""
        return {}

    def _states(self, group: Group) -> tuple[str, ...]:
        asked = [name for setting, name in self.states_if.items() if group[setting]]
        return (*self.states, *asked)

    def _stepwise(self, group: Group) -> Stepwise:
        return Stepwise(tuple(self._counted(group, 1)), self._counted_from(group))

    def _all_flags(self, group: Group) -> Flags:
        """All flags: of a group without weight decay as of the others, to share their launch."""
        decays = any(other.get("weight_decay", 0) != 0 for other in self.param_groups)
        decoupled = group.get("decoupled_weight_decay", self.decoupled)
        return (
            ("maximize", bool(group["maximize"])),
            ("decay", decays and not decoupled),
            ("shrink", bool(decays and decoupled)),
            *[(name, bool(group[name])) for name in self.flags],
        )

    def _rules(self, groups: Sequence[Group], flags: Flags, steps: int) -> list[Rule]:
        """The rules of some groups with equal flags for a step by its number."""
        return [self._rule(group, flags, steps) for group in groups]

    def _rule(self, group: Group, flags: Flags, steps: int) -> Rule:
        scalars = self._counted(group, steps)
        scalars.update({name: number(group, name) for name in self.scalars})
        if _DECAY in flags:
            scalars["weight_decay"] = group["weight_decay"]
        if _SHRINK in flags:
            scalars["kept"] = 1 - group["lr"] * group["weight_decay"]
        return Rule(self.template, flags, scalars)

    def step(self, closure: Closure | None = None, *, found_inf: Tensor | None = None) -> Any:
        """Update every parameter that has a gradient; does not wait for the device.

        Inside a capture, each replay is a step too, with the settings of then.

        >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
        >>> optimizer = optim.SGD([w], lr=0.25)
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ag.sum(ag.square(w))
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure).item(), w.tolist()
        (20.0, [2.0, -1.0])

        Args:
            closure: Computes the loss and its gradients anew; called once, with gradients on.
            found_inf: An int32 tensor of one element on the device of all these parameters. If
                it is not 0, which the device looks at, this is no step: nothing changes, and
                nothing is counted. It takes one more launch, and the next step without it, or
                of other parameters, waits for the device to know the counts. After
                `torch.amp.GradScaler`, which gives it to fused optimizers.

        Returns:
            What the closure returned.
        """
        loss = None if closure is None else evaluated(type(self).__name__, closure)
        self._check_flag(found_inf)
        for (slab, _, flags), works in self._due().items():
            for groups, work in works:
                skip = None
                if found_inf is not None:
                    stepwise = partial(self._all_stepwise, groups)
                    skip = slab.skip(work, found_inf, stepwise)
                gate = skip and skip.gate
                before_replay(
                    partial(self._check_replay, groups, self._placement, work, flags, gate)
                )
                slab.step(work, skip)
        return loss

    def _all_stepwise(self, groups: Sequence[Group]) -> list[Stepwise]:
        return [self._stepwise(group) for group in groups]

    def _kinds(self) -> dict[tuple[str, ...], list[Group]]:
        """The groups by their states."""
        kinds: dict[tuple[str, ...], list[Group]] = {}
        for group in self.param_groups:
            kinds.setdefault(self._states(group), []).append(group)
        return kinds

    def _begun(self, groups: Sequence[Group]) -> dict[int, Mapping[str, Any]]:
        """What parameters hold before their first step, where that is not zeros."""
        pairs = [(p, self._fresh(group, p)) for group in groups for p in group["params"]]
        return {id(p): {"step": 0, **fresh} for p, fresh in pairs if fresh}

    def _slots_due(self) -> list[tuple[Group, list[Slot]]]:
        """Each group's slots of parameters that a step changes, laid out anew where they moved."""
        due = []
        for group in self.param_groups:
            names = self._states(group)
            slots = self._placement.due(group["params"], names)
            if slots is None:
                groups = self._kinds()[names]
                params = [p for other in groups for p in other["params"]]
                self._placement.lay_out(params, names, partial(self._begun, groups))
                return self._slots_due()
            due.append((group, slots))
        return due

    def _due(self) -> dict[tuple[Slab, int, Flags], list[tuple[list[Group], SlabWork]]]:
        """What is to be done: the work of each launch's kind, with the groups of its rows."""
        works_due: dict[tuple[Slab, int, Flags], list[tuple[list[Group], SlabWork]]] = {}
        for group, slots in self._slots_due():
            flags = self._all_flags(group)
            alike: dict[tuple[Slab, int], list[Slot]] = {}
            for slot in slots:
                alike.setdefault((slot.slab, slot.steps), []).append(slot)
            for (slab, steps), own in alike.items():
                works = works_due.setdefault((slab, steps, flags), [])
                if not works or len(works[-1][0]) == ROWS:
                    groups: list[Group] = []
                    works.append((groups, SlabWork([], [], partial(self._rules, groups, flags))))
                groups, work = works[-1]
                work.slots.extend(own)
                work.rows.extend([len(groups)] * len(own))
                groups.append(group)
        return works_due

    def _check_flag(self, found_inf: Tensor | None) -> None:
        if found_inf is None:
            return
        who = f"{type(self).__name__}.step"
        if found_inf.size != 1 or found_inf.dtype != "int32":
            given = f"found_inf of {found_inf.dtype} and shape {found_inf.shape}"
            raise ArgumentError(message(who, given, "int32 of one element"))
        for p in self._parameters():
            if p.grad is not None and p.size and p.device is not found_inf.device:
                given = f"found_inf on {found_inf.device!r} and a parameter on {p.device!r}"
                raise DeviceError(message(who, given, "all on one device"))

    def _check_replay(
        self,
        groups: Sequence[Group],
        placement: Placement,
        work: SlabWork,
        flags: Flags,
        gate: Gate | None,
    ) -> None:
        """Raise ReplayError if a captured step is no longer one of this optimizer's."""
        if placement is not self._placement or not placement.has(work.slots):
            raise self._outdated("states that are no longer used", "the states of the capture")
        settle(work.slots, gate)
        if len({slot.steps for slot in work.slots}) > 1:
            raise self._outdated("parameters updated unequally often", "equal counts of steps")
        for group in groups:
            now = self._all_flags(group)
            if now != flags:
                given = f"the settings {dict(now)}"
                raise self._outdated(given, f"{dict(flags)}, as captured")

    def _outdated(self, given: str, expected: str) -> ReplayError:
        who, remedy = f"{type(self).__name__}.step", "Capture the step anew"
        return ReplayError(message(who, f"a replay with {given}", expected, remedy))

    def _saved_states(self, number: Mapping[int, int]) -> dict[int, dict[str, Any]]:
        held = self._placement.held(self._parameters())
        return {
            number[id(p)]: {**held[id(p)], **self._extras(group, held[id(p)]["step"])}
            for group in self.param_groups
            for p in group["params"]
            if id(p) in held
        }

    def _extras(self, group: Group, steps: int) -> dict[str, Any]:
        """What PyTorch saves besides, though it follows from the settings."""
        return {}

    def _load_states(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        self._placement = Placement()
        for names, groups in self._kinds().items():
            params = [p for group in groups for p in group["params"]]
            self._placement.place(params, names, {**self._begun(groups), **held})
