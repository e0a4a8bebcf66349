"""Programs: a partitioned trace as a sequence of steps that run on operands.

A step is a fused region (a planned call) or a structured op. Steps record their own
nodes, so gradients flow through a program as through any ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, final

from netcl_core.codegen.layout import Sizes, renamed
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.dtypes import category_of_scalar
from netcl_core.hardware.device import Device
from netcl_core.jit.epilogues import join
from netcl_core.jit.fused_operator import FusedOperatorCall, Neighbour
from netcl_core.jit.partition import Unit, is_elementwise, is_leaf, is_small, partition, region_of
from netcl_core.jit.patterns.rewriting import Rewritten
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.tape.apply import apply
from netcl_core.tape.modes import no_grad
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.trace_node import CONSTANT, INPUT, RANDOM, TraceNode
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tensors.random_state import random_state

DETACH: Final = AutogradPrimitive("detach", lambda args, _: args[0], lambda *_: [None], 1)


class Executable(Protocol):
    """One step of a program."""

    @property
    def unit(self) -> Unit:
        """What is launched together."""

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        """Compute from `values`, by number of the trace's nodes, and put the results there."""

    @property
    def launches(self) -> int:
        """How many kernels the forward launches."""


class _RegionBuilder:
    """Puts the steps of a unit's nodes into one region."""

    def __init__(self, unit: Unit) -> None:
        self.inputs = unit.inputs
        self.refs: dict[int, Ref] = {x.number: ("in", i) for i, x in enumerate(self.inputs)}
        self.steps: list[PrimitiveStep] = []
        self.scalars: list[Any] = []
        for node in unit.nodes:
            self._inline(node)
        self.outputs = tuple(self.refs[node.number] for node in unit.outputs)

    def _inline(self, node: TraceNode) -> None:
        operands = [self.refs[x.number] for x in node.inputs]
        region = region_of(node)
        result = operands[0] if region is None else self._copy(region, operands, node)
        if node.cut:
            self.steps.append(PrimitiveStep(DETACH, (result,)))
            result = ("step", len(self.steps) - 1)
        self.refs[node.number] = result

    def _copy(self, region: Region, operands: Sequence[Ref], node: TraceNode) -> Ref:
        first, slots = len(self.steps), len(self.scalars)
        self.scalars += node.scalars

        def moved(ref: Ref) -> Ref:
            kind, i = ref
            if kind == "in":
                return operands[i]
            return kind, i + (slots if kind == "scalar" else first)

        for step in region.steps:
            refs = tuple(moved(ref) for ref in step.operands)
            attrs = tuple((name, slot + slots) for name, slot in step.attrs)
            self.steps.append(replace(step, operands=refs, attrs=attrs))
        return moved(region.outputs[0])

    def region(self) -> Region:
        return Region(len(self.inputs), len(self.scalars), tuple(self.steps), self.outputs)


def fused_name(region: Region) -> str:
    """The name of a region's node: the op of a single step, else `fused(...)`."""
    return region.name if len(region.steps) == 1 else f"fused({', '.join(region.ops)})"


@final
class Scalars:
    """The scalar arguments of a step: constants of the trace, and numbers of the call."""

    __slots__ = ("_values", "_varying")

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)
        self._varying = any(type(x) is TracedNumber for x in values)

    def given(self, numbers: Sequence[Any]) -> Sequence[Any]:
        """The arguments for the numbers of one call."""
        if not self._varying:
            return self._values
        return [numbers[x.index] if type(x) is TracedNumber else x for x in self._values]


@final
@dataclass(frozen=True, slots=True)
class _Grouped:
    """A group of nodes as a planned region, with its inputs and scalars."""

    plan: Plan
    inputs: tuple[int, ...]
    scalars: tuple[Any, ...]


def _grouped(unit: Unit | None, device: Device) -> _Grouped | None:
    if unit is None:
        return None
    made = _RegionBuilder(unit)
    tensors = tuple((x.shape, x.dtype) for x in made.inputs)
    categories = tuple(category_of_scalar(value) for value in made.scalars)
    plan = Plan(made.region(), device, Signature(tensors, categories))
    return _Grouped(plan, tuple(x.number for x in made.inputs), tuple(made.scalars))


@final
class RegionStep:
    """A fused region. With `sizes` it is for other sizes than its unit was traced with."""

    def __init__(self, unit: Unit, device: Device) -> None:
        made = _grouped(unit, device)
        assert made is not None  # there is a unit
        self.call = RegionCall(made.plan, fused_name(made.plan.region))
        self.inputs = made.inputs
        self.outputs = tuple(node.number for node in unit.outputs)
        self.scalars = Scalars(made.scalars)
        self._unit = unit
        self._sizes: Sizes = {}

    def resized(self, sizes: Sizes) -> RegionStep:
        """The same step for other sizes: nothing but shapes is worked out again."""
        made = object.__new__(RegionStep)
        made.__dict__.update(self.__dict__)
        made.call = RegionCall(self.call.plan.resized(sizes), self.call.name)
        made._sizes = sizes
        return made

    @property
    def unit(self) -> Unit:
        """What is launched together."""
        return self._unit.resized(self._sizes) if self._sizes else self._unit

    @property
    def launches(self) -> int:
        return int(self.call.size > 0)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        found = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            values[self.outputs[0]] = found
        else:
            values.update(zip(self.outputs, found, strict=True))


@final
class OperatorStep:
    """A structured op by itself."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        (node,) = unit.nodes
        self.call: OperatorCall = node.call
        self.inputs = tuple(x.number for x in node.inputs)
        self.output = node.number
        self.cut = node.cut

    @property
    def launches(self) -> int:
        return len(self.call.launched)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        if self.cut:
            with no_grad():
                values[self.output] = apply(self.call, operands)
        else:
            values[self.output] = apply(self.call, operands)


@final
class PickStep:
    """One of several results of a structured op."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        (node,) = unit.nodes
        self.source, self.index, self.output = node.inputs[0].number, node.pick, node.number

    @property
    def launches(self) -> int:
        return 0

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        values[self.output] = values[self.source][self.index]


@final
class DetachStep:
    """`detach` by itself: other tensors for the same data."""

    launches = 0

    def __init__(self, unit: Unit) -> None:
        self.unit = unit

    def resized(self, sizes: Sizes) -> DetachStep:
        """The same for tensors of other sizes."""
        return DetachStep(self.unit.resized(sizes))

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        for node in self.unit.nodes:
            values[node.number] = values[node.inputs[0].number].detach()


@final
class FusedOperatorStep:
    """A structured op with the groups beside it in its kernel."""

    def __init__(self, unit: Unit, device: Device) -> None:
        self.unit = unit
        (node,) = [each for each in unit.nodes if not is_elementwise(each)]
        made: OperatorCall = node.call
        before, after = (_grouped(each, device) for each in (unit.before, unit.after))
        own = node.inputs[1 if before else 0 :]
        inputs = [*(before.inputs if before else ()), *(x.number for x in own)]
        behind = None
        if after is not None:
            value = after.inputs.index(node.number)
            behind = Neighbour(after.plan, value)
            inputs += [number for number in after.inputs if number != node.number]
        self.call = FusedOperatorCall(
            made,
            None if before is None else Neighbour(before.plan),
            behind,
            f"fused({', '.join(each.op_name for each in unit.nodes)})",
        )
        self.inputs = tuple(inputs)
        self.outputs = tuple(each.number for each in unit.outputs)
        self.scalars = Scalars([x for each in (before, after) if each for x in each.scalars])

    @property
    def launches(self) -> int:
        return len(self.call.bound(False).launches)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        found = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            found = [found]
        values.update(zip(self.outputs, found, strict=True))


@final
class Program:
    """The steps of a traced function, from its tensors to its results.

    `nodes` are those of the trace, `results` the nodes that the function returned and, behind
    them, the new values of `written`, the tensors that it overwrites.
    """

    def __init__(self, trace: Rewritten, written: Sequence[Any] = ()) -> None:
        nodes, results = trace.nodes, trace.results
        self.trace = trace
        self.written = tuple(written)
        self._nodes = tuple(nodes)
        self._sizes: Sizes = {}
        self.results = tuple(node.number for node in results)
        for node in results:
            node.is_result = True
        units = join(partition(nodes, results))
        self.steps: list[Executable] = [_step(unit) for unit in units]
        used = {x.number for unit in units for x in unit.inputs} | set(self.results)
        self.inputs = tuple(
            node.number for node in nodes if node.op_name == INPUT and is_leaf(node)
        )
        self.unused = tuple(i for i, number in enumerate(self.inputs) if number not in used)
        self.constants = {
            node.number: node.tensor
            for node in nodes
            if node.op_name == CONSTANT and is_leaf(node) and node.number in used
        }
        self.random = [node for node in nodes if node.op_name == RANDOM and node.number in used]
        self._last = _last_uses(units, self.results)
        self.direct = self._direct()
        #: Whether tensors of any other sizes, broadcast alike, may be given to it once resized.
        self.any_sizes = not self.random and all(is_leaf(x) or is_elementwise(x) for x in nodes)
        shapes = {node.shape for unit in units for node in unit.nodes}
        self._shapes = shapes if len(shapes) > 1 else set()

    @property
    def nodes(self) -> Sequence[TraceNode]:
        """The nodes of the trace."""
        sizes = self._sizes
        return [node.resized(sizes) for node in self._nodes] if sizes else self._nodes

    def resized(self, sizes: Sizes) -> Program | None:
        """The same program for tensors of other sizes, given for each size above 1.

        None where a trace might have shared out the ops in another way, as it does where
        large and small values meet.
        """
        if any(is_small(shape) != is_small(renamed(shape, sizes)) for shape in self._shapes):
            return None
        made = object.__new__(Program)
        made.__dict__.update(self.__dict__)
        made._sizes = sizes
        elementwise = (RegionStep, DetachStep)
        made.steps = [step.resized(sizes) for step in self.steps if isinstance(step, elementwise)]
        made.direct = made._direct()
        return made

    def _direct(self) -> RegionStep | None:
        """The one step, if it takes the function's tensors as they come and gives its result."""
        if len(self.steps) != 1 or len(self.results) != 1 or self.written:
            return None
        step = self.steps[0]
        if isinstance(step, RegionStep) and step.inputs == self.inputs:
            return step if step.outputs == self.results else None
        return None

    @property
    def launches(self) -> int:
        """How many kernels the forward launches."""
        return sum(step.launches for step in self.steps)

    def given(self, tensors: Sequence[Any]) -> dict[int, Any]:
        """What the steps of a call begin with, by number of the trace's nodes."""
        values: dict[int, Any] = dict(zip(self.inputs, tensors, strict=True))
        values |= self.constants
        for node in self.random:
            assert node.device is not None  # a random state lies somewhere
            values[node.number] = random_state(node.device)
        return values

    def run(self, tensors: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The results for the tensors and numbers of one call."""
        values = self.given(tensors)
        for step, last in zip(self.steps, self._last, strict=True):
            step.run(values, numbers)
            for number in last:
                del values[number]
        found = [values[i] for i in self.results]
        for target in reversed(self.written):  # what is read was read
            target.overwrite(found.pop())
        return found


def _last_uses(units: Sequence[Unit], results: Sequence[int]) -> list[list[int]]:
    """What each unit is the last to need: once let go of, its memory serves the next ones."""
    seen = set(results)
    found: list[list[int]] = []
    for unit in reversed(units):
        numbers = dict.fromkeys(x.number for x in [*unit.inputs, *unit.outputs])
        found.append([number for number in numbers if number not in seen])
        seen.update(numbers)
    return found[::-1]


def _step(unit: Unit) -> Executable:
    device = unit.nodes[0].device
    assert device is not None  # its operands lie there
    if unit.detaches:
        return DetachStep(unit)
    if unit.elementwise:
        return RegionStep(unit, device)
    if unit.nodes[0].pick is not None:
        return PickStep(unit)
    if unit.before is None and unit.after is None:
        return OperatorStep(unit)
    return FusedOperatorStep(unit, device)
