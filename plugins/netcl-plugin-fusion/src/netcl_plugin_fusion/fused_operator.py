"""A structured op with elementwise neighbours in its kernel, as a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias, final

from netcl_core import DTYPES, Bound, Spec, Tensor
from netcl_core.autograd import Geometry, Node, Slots, check_data
from netcl_core.inspect.recorded import (
    OperatorCall,
    PlainCall,
    RegionCall,
    apply,
    is_given_away,
    plan_gradients,
    recomputed_gradients,
    run_plan,
)
from netcl_core.inspect.sources import Plan
from netcl_core.inspect.streams import stream_of
from netcl_plugin_fusion.inline import FilledSlots, Inline

Needs: TypeAlias = tuple[bool, ...]


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Neighbour:
    """A group beside an op: its plan, and of an epilogue the input that the op computes."""

    plan: Plan
    value: int | None = None

    @property
    def count(self) -> int:
        """How many tensors it reads apart from the op's result."""
        return self.plan.region.inputs - (self.value is not None)


@final
class FusedOperatorCall(PlainCall):
    """An operator with a group before it, behind it, or both (see `apply.Call`).

    Its inputs are the tensors of the group before, those of the op (without operand 0 if a group
    computes it), and those of the group behind (without the op's result); its scalars are those
    of both groups.
    """

    keeps = True
    packs = True
    layouts = ()

    def __init__(
        self, own: OperatorCall, before: Neighbour | None, after: Neighbour | None, name: str
    ) -> None:
        self.made = own
        self.before = before
        self.after = after
        self.name = name
        self.device = own.device
        self._own = [i for i in own.present if before is None or i != 0]
        first = before.count if before else 0
        self._cuts = first, first + len(self._own)
        self._scalars_before = before.plan.region.scalars if before else 0
        self._bounds: dict[bool, Bound] = {}
        self.known: dict[Needs, Any] = {}
        self.results: tuple[Spec, ...] = own.results
        if after is not None:
            plan = after.plan
            self.results = tuple(Spec(plan.shape, dtype) for dtype in plan.types.outputs)

    def region_of(
        self, inputs: Sequence[Any], scalars: Sequence[Any]
    ) -> tuple[Plan, Sequence[Any], Sequence[Any]] | None:
        """The same of the group behind; the op's own value is None."""
        if self.after is None or self.after.value is None:
            return None
        given = list(inputs[self._cuts[1] :])
        given.insert(self.after.value, None)
        return self.after.plan, given, scalars[self._scalars_before :]

    # -- the kernel ------------------------------------------------------------------

    def bound(self, keep: bool) -> Bound:
        """The kernels; with `keep` they store what the gradients read besides, too."""
        bound = self._bounds.get(keep)
        if bound is None:
            keeping = keep and bool(self.made.residuals)  # now it has its settings
            request = dataclasses.replace(self.made.request, slots=self._slots(keep), keep=keeping)
            prepared = self.made.prepared(request, self._outputs(keep))
            assert isinstance(prepared, Bound)  # host calls offer no slot
            bound = self._bounds[keep] = prepared
        return bound

    def _outputs(self, keep: bool) -> tuple[Spec, ...]:
        """What is kept, the op's own value and its residuals, then the results if these differ."""
        if not keep:
            return self.results
        own = (*self.made.results, *self.made.residuals)
        return own if self.after is None else (*own, *self.results)

    def _slots(self, keep: bool) -> Slots:
        """Both groups as C functions. The kernel's inputs are the op's own, then theirs."""
        count = len(self.made.request.inputs)
        prologue = epilogue = None
        if self.before is not None:
            places = tuple(range(count, count + self.before.count))
            prologue = Inline("prologue", self.before.plan, places)
            count += self.before.count
        if self.after is not None:
            plan, value = self.after.plan, self.after.value
            others = iter(range(count, count + self.after.count))
            places = tuple(-1 if i == value else next(others) for i in range(plan.region.inputs))
            end = len(self._outputs(keep))
            results, kept = tuple(range(end - len(self.results), end)), 0 if keep else None
            first = self._scalars_before
            epilogue = Inline("epilogue", plan, places, first, value, results, kept)
        return FilledSlots(prologue, epilogue)

    # -- running ---------------------------------------------------------------------

    def reading(self, layouts: Sequence[Geometry | None]) -> FusedOperatorCall:
        """Itself, which gets all operands in C order."""
        return self

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        """The result, or a list of several."""
        results = self._computed(inputs, scalars, False)
        return results if len(results) > 1 else results[0]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        """The same, and what the op's own gradients read: its value and its residuals."""
        all_values = self._computed(inputs, scalars, True)
        count = len(self.results)
        results, kept = (
            (all_values[-count:], all_values[:-count])
            if self.after
            else (all_values[:count], all_values)
        )
        return results if count > 1 else results[0], kept

    def _computed(
        self, inputs: Sequence[Tensor], scalars: Sequence[Any], keep: bool
    ) -> list[Tensor]:
        call = self.made
        if call.operator.check is not None:
            operands = call.operands(self._op_values(inputs))
            check_data(call.operator.check, operands, call.attrs)
        specs = self._outputs(keep)
        allocate = stream_of(self.device).allocate
        buffers = [allocate(spec.size, DTYPES[spec.dtype]) for spec in specs]
        first, last = self._cuts
        own = [value.buffer for value in inputs[first:last]]
        given = [*([None] if self.before else []), *own]
        given += [value.buffer for value in (*inputs[:first], *inputs[last:])]
        bound = self.bound(keep)
        if call.tuner is not None:
            call.offer(self._op_inputs(inputs, scalars), keep)
        bound(given, buffers, scalars)
        return [
            Tensor(buffer, spec.shape, spec.dtype, self.device)
            for buffer, spec in zip(buffers, specs, strict=True)
        ]

    def _op_values(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The op's inputs; the one that a group computes has shape and dtype, but no data."""
        own = list(inputs[slice(*self._cuts)])
        if self.before is None:
            return own
        plan = self.before.plan
        return [Tensor(None, plan.shape, plan.types.outputs[0], plan.device), *own]

    # -- the gradients ---------------------------------------------------------------

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        own = self.made.flows(self._op_needs(needs))
        if self.after is None:
            return own
        wanted = list(needs[self._cuts[1] :])
        wanted.insert(self.after.value or 0, own[0])
        return self.after.plan.flows(tuple(wanted))

    def _op_needs(self, needs: Needs) -> Needs:
        """Which of the op's inputs need a gradient."""
        first, last = self._cuts
        own = needs[first:last]
        if self.before is None:
            return own
        return True in self.before.plan.flows(needs[:first]), *own

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs the gradients read."""
        first, last = self._cuts
        read = self.made.saves(self._op_needs(needs))
        ahead = int(self.before is not None)
        saved = {first + k - ahead for k in read if k >= ahead}
        if self.before is not None:
            stage = self.before.plan.backward(needs[:first])
            saved.update(range(first) if 0 in read else stage.reads)
        if self.after is not None:
            saved.update(range(last, len(needs)))
        return tuple(sorted(saved))

    def gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The gradients of all inputs from those of the results, backwards group by group."""
        first, last = self._cuts
        values = [x.value for x in node.inputs]
        scalars = node.scalars
        gradients: list[Any] = [None] * len(values)
        own_needs = self._op_needs(needs)
        grad: Any = grads[0]
        if self.after is not None:
            place = self.after.value
            assert place is not None  # the op's result among the group's inputs
            given, wanted = list(values[last:]), list(needs[last:])
            given.insert(place, node.kept[0])
            wanted.insert(place, True in own_needs)
            rest = scalars[self._scalars_before :]
            parts = plan_gradients(self.after.plan, given, rest, tuple(wanted), grads)
            grad = parts.pop(place)
            gradients[last:] = parts
        if grad is None or True not in self.made.flows(own_needs):
            return gradients
        inputs: list[Any] = self._op_values(values)
        read = 0 in self.made.reads(own_needs) or is_given_away(node.kept)
        if self.before is not None and read:
            inputs = self._op_inputs(values, scalars)
        parts = self.made.gradients_from(inputs, node.kept, [grad], own_needs)
        if self.before is not None:
            upstream = parts.pop(0)
            if upstream is not None:
                plan, rest = self.before.plan, scalars[: self._scalars_before]
                upstream = upstream.value if isinstance(upstream, Node) else upstream
                gradients[:first] = plan_gradients(
                    plan, values[:first], rest, needs[:first], [upstream]
                )
        gradients[first:last] = parts
        return gradients

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same by the group before, the op and the group behind, one by one and recorded."""

        def unfused(*operands: Any) -> Any:
            return self.in_turn(operands, node.scalars, apply)

        return recomputed_gradients(unfused, node.inputs, grads, needs, record=True)

    def in_turn(
        self, inputs: Sequence[Any], scalars: Sequence[Any], run: Callable[..., Any]
    ) -> Any:
        """The results, where `run(call, inputs, scalars)` gives those of each group and the op."""
        cut, (first, last) = self._scalars_before, self._cuts
        before, after = self._apart
        own, rest = list(inputs[first:last]), list(inputs[last:])
        if before is not None:
            own.insert(0, run(before, inputs[:first], scalars[:cut]))
        result = run(self.made, own, ())
        if after is None or self.after is None or self.after.value is None:
            return result
        rest.insert(self.after.value, result)
        return run(after, rest, scalars[cut:])

    @cached_property
    def _apart(self) -> tuple[RegionCall | None, RegionCall | None]:
        """Both groups as calls of their own."""
        before, after = self.before, self.after
        return (
            None if before is None else RegionCall(before.plan, before.plan.region.name),
            None if after is None else RegionCall(after.plan, after.plan.region.name),
        )

    def _op_inputs(self, values: Sequence[Tensor], scalars: Sequence[Any]) -> list[Tensor]:
        """The op's inputs, the one that a group computes by itself."""
        operands = self._op_values(values)
        if self.before is not None:
            own = scalars[: self._scalars_before]
            operands[0] = run_plan(self.before.plan, values[: self._cuts[0]], own)[0]
        return operands
