"""A structured op with elementwise neighbours in its kernel: forward, and the gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, final

from netcl_core.codegen.dialect import dialect_of
from netcl_core.codegen.generation import Needs
from netcl_core.codegen.inline import Inline, Slots
from netcl_core.codegen.lowering import Plan
from netcl_core.dtypes import DTYPES
from netcl_core.ops.operator_call import OperatorPlan
from netcl_core.ops.operators import Saved
from netcl_core.runtime.kernels import Bound, Kernels, Spec
from netcl_core.runtime.stream import stream_of
from netcl_core.tape import frames
from netcl_core.tape.gradients import run_plan, whole
from netcl_core.tape.modes import is_grad_enabled
from netcl_core.tape.node import Node
from netcl_core.tape.region_call import outputs_of, plan_gradients
from netcl_core.tape.state import thread
from netcl_core.tape.tape import recorder
from netcl_core.tensors.tensor import Tensor


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
class FusedOperator:
    """A planned operator with a group before it, behind it, or both.

    It is called with the tensors of the group before, those of the op (without input 0 if
    a group computes it), and those of the group behind (without the op's result); and with
    the scalars of both groups.
    """

    def __init__(
        self, made: OperatorPlan, before: Neighbour | None, after: Neighbour | None, name: str
    ) -> None:
        self.made = made
        self.before = before
        self.after = after
        self.name = name
        present = [i for i, spec in enumerate(made.specs) if spec is not None]
        self._own = [i for i in present if before is None or i != 0]
        first = before.count if before else 0
        self._cuts = first, first + len(self._own)
        self._scalars_before = before.plan.region.scalars if before else 0
        self._bounds: dict[bool, Bound] = {}
        self._saves: dict[Needs, tuple[int, ...]] = {}
        self._known: dict[Needs, Needs] = {}
        self.results: tuple[Spec, ...] = (made.output,)
        if after is not None:
            plan = after.plan
            self.results = tuple(Spec(plan.shape, dtype) for dtype in plan.types.outputs)
        #: Whether the op's own value is part of the gradient and has to be stored beside.
        self._keeps = after is not None

    # -- the kernel ------------------------------------------------------------------

    def bound(self, keep: bool) -> Bound:
        """The kernels; with `keep` they store the op's own value too."""
        found = self._bounds.get(keep)
        if found is None:
            request = dataclasses.replace(self.made.request, slots=self._slots(keep))
            planned = self.made.implementation.plan(request)
            assert isinstance(planned, Kernels)  # host calls offer no slot
            planned = dataclasses.replace(planned, scalars=request.slots.scalars)
            found = Bound(self.made.device, planned, request.inputs, self._outputs(keep))
            self._bounds[keep] = found
        return found

    def _outputs(self, keep: bool) -> tuple[Spec, ...]:
        return (*self.results, self.made.output) if keep else self.results

    def _slots(self, keep: bool) -> Slots:
        """Both groups as C functions. The kernel's inputs are the op's own, then theirs."""
        count = len(self.made.request.inputs)
        prologue = epilogue = None
        scalars: tuple[str, ...] = ()
        if self.before is not None:
            plan = self.before.plan
            places = tuple(range(count, count + self.before.count))
            prologue = _inline("prologue", plan, places)
            count += self.before.count
            scalars = plan.types.scalars
        if self.after is not None:
            plan, value = self.after.plan, self.after.value
            others = iter(range(count, count + self.after.count))
            places = tuple(-1 if i == value else next(others) for i in range(plan.region.inputs))
            results = tuple(range(len(self.results)))
            epilogue = dataclasses.replace(
                _inline("epilogue", plan, places, len(scalars)),
                value=value, outputs=results, keep=len(results) if keep else None,
            )  # fmt: skip
            scalars += plan.types.scalars
        return Slots(prologue, epilogue, scalars)

    # -- running ---------------------------------------------------------------------

    def __call__(self, operands: Sequence[Any], scalars: Sequence[Any]) -> list[Any]:
        """The results as Nodes, or as Tensors with grad mode off."""
        needs = tuple([x.requires_grad for x in operands])
        tape = thread.tape or recorder()
        flows = self._flows(needs)
        recorded = is_grad_enabled() and tape.enabled and True in flows
        values = [x.value for x in operands]
        if self.made.operator.check is not None:
            self.made.operator.check(self._op_values(values), self.made.attrs)
        tensors = self.forward(values, scalars, recorded and self._keeps)
        results = tensors[: len(self.results)]
        if not is_grad_enabled():
            return results
        if not recorded:
            return [Node(value, op_name=self.name) for value in results]
        gradients = partial(self.gradients, operands, scalars, needs, tensors[-1])
        node = Node(results[0], gradients, operands, True, self.name)
        node.spread = self.after is not None
        node.fn = partial(self._first, scalars)
        node.frame = frames.user_frame()
        node.versions = tuple([(values[i], values[i].version) for i in self._saved(needs)])
        tape.record(node)
        return [node] if len(results) == 1 else outputs_of(node, results, flows, tape)

    def _flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an operand that needs one."""
        found = self._known.get(needs)
        if found is None:
            first, last = self._cuts
            reached = True in needs[first:last]
            if self.before is not None:
                reached = reached or True in self.before.plan.flows(needs[:first])
            own = reached and self.made.differentiable
            found = (own,)
            if self.after is not None:
                wanted = list(needs[last:])
                wanted.insert(self.after.value or 0, own)
                found = self.after.plan.flows(tuple(wanted))
            self._known[needs] = found
        return found

    def forward(self, values: Sequence[Tensor], scalars: Sequence[Any], keep: bool) -> list[Tensor]:
        """The results, and with `keep` the op's own value as the last one."""
        device = self.made.device
        specs = self._outputs(keep)
        allocate = stream_of(device).allocate
        buffers = [allocate(spec.size, DTYPES[spec.dtype]) for spec in specs]
        first, last = self._cuts
        own = [value.buffer for value in values[first:last]]
        inputs = [*([None] if self.before else []), *own]
        inputs += [value.buffer for value in (*values[:first], *values[last:])]
        self.bound(keep)(inputs, buffers, scalars)
        return [
            Tensor(buffer, spec.shape, spec.dtype, device)
            for buffer, spec in zip(buffers, specs, strict=True)
        ]

    def _first(self, scalars: Sequence[Any], *values: Tensor) -> Tensor:
        return self.forward(values, scalars, False)[0]

    def _op_values(self, values: Sequence[Tensor]) -> list[Tensor | None]:
        """The op's inputs; the one that a group computes has shape and dtype, but no data."""
        found: list[Tensor | None] = [None] * len(self.made.specs)
        if self.before is not None:
            plan = self.before.plan
            found[0] = Tensor(None, plan.shape, plan.types.outputs[0], plan.device)
        for i, value in zip(self._own, values[slice(*self._cuts)], strict=True):
            found[i] = value
        return found

    # -- the gradients ---------------------------------------------------------------

    def gradients(
        self,
        operands: Sequence[Any],
        scalars: Sequence[Any],
        needs: Needs,
        own: Tensor,
        *grads: Any,
    ) -> list[Any]:
        """The gradients of all operands from those of the results, backwards group by group."""
        first, last = self._cuts
        values = [x.value for x in operands]
        found: list[Any] = [None] * len(operands)
        grad: Any = grads[0]
        if self.after is not None:
            plan, place = self.after.plan, self.after.value
            assert place is not None  # the op's result among the group's inputs
            given, wanted = list(values[last:]), list(needs[last:])
            given.insert(place, own)
            wanted.insert(place, True)
            rest = scalars[self._scalars_before :]
            parts = plan_gradients(plan, given, rest, tuple(wanted), *grads)
            grad = parts.pop(place)
            found[last:] = parts
        if grad is None or self.made.operator.backward is None:
            return found
        op_needs = [False] * len(self.made.specs)
        for i, need in zip(self._own, needs[first:last], strict=True):
            op_needs[i] = need
        inputs: list[Any] = self._op_values(values)
        if self.before is not None:
            op_needs[0] = True in needs[:first]
            saves = self.made.operator.saves
            if saves is None or 0 in saves:
                inputs[0] = self._computed(values[:first], scalars)
        saved = Saved(tuple(inputs), own, self.made.attrs, tuple(op_needs))
        parts = [_plain(part) for part in self.made.operator.backward(saved, whole(grad))]
        found[first:last] = [parts[i] for i in self._own]
        if self.before is not None and parts[0] is not None:
            scalars = scalars[: self._scalars_before]
            plan = self.before.plan
            found[:first] = plan_gradients(plan, values[:first], scalars, needs[:first], parts[0])
        return found

    def _computed(self, values: Sequence[Tensor], scalars: Sequence[Any]) -> Tensor:
        """The op's input 0, computed again."""
        assert self.before is not None  # there is a group that computes it
        buffers = [value.buffer for value in values]
        return run_plan(self.before.plan, buffers, scalars[: self._scalars_before])[0]

    def _saved(self, needs: Needs) -> tuple[int, ...]:
        """Which operands the gradients read."""
        found = self._saves.get(needs)
        if found is None:
            first, last = self._cuts
            saves = self.made.operator.saves
            reads = {first + k for k, i in enumerate(self._own) if saves is None or i in saves}
            if self.before is not None:
                again = saves is None or 0 in saves
                stage = self.before.plan.backward(needs[:first])
                reads.update(range(first) if again else stage.reads)
            if self.after is not None:
                reads.update(range(last, len(needs)))
            found = self._saves[needs] = tuple(sorted(reads))
        return found


def _inline(name: str, plan: Plan, places: tuple[int, ...], first_scalar: int = 0) -> Inline:
    shapes = tuple(shape for shape, _ in plan.signature.tensors)
    dialect = dialect_of(plan.device)
    return Inline(
        name, plan.region, plan.types, plan.shape, shapes, places, first_scalar, dialect=dialect
    )


def _plain(part: Any) -> Any:
    """A gradient as a Tensor, a Spread or None."""
    return part.value if isinstance(part, Node) else part
