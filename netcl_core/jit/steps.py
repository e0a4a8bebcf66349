"""The steps of a program: a fused region, a structured op, one with its neighbours, and views.

Each is for the sizes of its trace, or, resized, for others that are broadcast alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, Self, final

from netcl_core.codegen.inline import fits
from netcl_core.codegen.layout import Shape, Sizes, renamed
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.dtypes import category_of_scalar
from netcl_core.hardware.device import Device
from netcl_core.jit.epilogues import stretch_of
from netcl_core.jit.fused_operator import FusedOperatorCall, Neighbour
from netcl_core.jit.partition import (
    Unit,
    is_elementwise,
    region_of,
)
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import apply
from netcl_core.tape.modes import no_grad
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.trace_node import TraceNode
from netcl_core.tape.traced_number import TracedNumber

DETACH: Final = AutogradPrimitive("detach", lambda args, _: args[0], lambda *_: [None], 1)


class Executable(Protocol):
    """One step of a program."""

    @property
    def unit(self) -> Unit:
        """What is launched together."""

    @property
    def fused(self) -> int:
        """How many ops have their gradients in the backward kernel of another."""

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        """Compute from `values`, by number of the trace's nodes, and put the results there."""

    @property
    def launches(self) -> int:
        """How many kernels the forward launches."""

    def resized(self, growing: Growing) -> Executable | None:
        """The same step for other sizes; None: a new trace has to say."""


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
    builder = _RegionBuilder(unit)
    tensors = tuple((x.shape, x.dtype) for x in builder.inputs)
    categories = tuple(category_of_scalar(value) for value in builder.scalars)
    plan = Plan(builder.region(), device, Signature(tensors, categories))
    return _Grouped(plan, tuple(x.number for x in builder.inputs), tuple(builder.scalars))


@final
class Growing:
    """Sizes above 1 of a trace, each with its size of now; an op's results may add some."""

    def __init__(self, sizes: Mapping[int, int], fixed: Collection[int]) -> None:
        self.sizes = {**{size: size for size in fixed}, **sizes}

    def specs(self, specs: Sequence[Spec | None]) -> tuple[Spec | None, ...]:
        """Operands as they are now."""
        return tuple([x and Spec(renamed(x.shape, self.sizes), x.dtype) for x in specs])

    def add(self, shape: Shape, now: Shape) -> bool:
        """Note what the sizes of a result are now; False if one size would be two."""
        if len(shape) != len(now):
            return False
        for size, size_now in zip(shape, now, strict=True):
            if size < 2 or size_now < 2:
                if size != size_now:
                    return False
            elif self.sizes.setdefault(size, size_now) != size_now:
                return False
        return True

    def resized(self, call: OperatorCall) -> OperatorCall | None:
        """A structured op for the operands of now; None: a new trace has to say."""
        fitted = call.resized(self.specs(call.specs))
        if fitted is None:
            return None
        pairs = zip(call.results, fitted.results, strict=True)
        return fitted if all(self.add(old.shape, new.shape) for old, new in pairs) else None


class _Readable:
    """The unit of a step, for readers with the sizes of now."""

    _unit: Unit
    _sizes: Sizes

    @property
    def fused(self) -> int:
        """How many ops have their gradients in the backward kernel of another."""
        unit = self._unit
        groups = [x for x in (unit.before, unit.after) if x is not None]
        return len(unit.nodes) - 1 - len(groups)

    @property
    def unit(self) -> Unit:
        """What is launched together."""
        return self._unit.resized(self._sizes) if self._sizes else self._unit

    def _copy(self, sizes: Sizes) -> Self:
        step = object.__new__(type(self))
        step.__dict__.update(self.__dict__)
        step._sizes = sizes
        return step


@final
class RegionStep(_Readable):
    """A fused region."""

    def __init__(self, unit: Unit, device: Device) -> None:
        group = _grouped(unit, device)
        assert group is not None  # there is a unit
        self.call = RegionCall(group.plan, fused_name(group.plan.region))
        self.inputs = group.inputs
        self.outputs = tuple(node.number for node in unit.outputs)
        self.scalars = Scalars(group.scalars)
        self._unit, self._sizes = unit, {}

    def resized(self, growing: Growing) -> RegionStep:
        """The same step for other sizes: nothing but shapes is worked out again."""
        step = self._copy(growing.sizes)
        step.call = RegionCall(self.call.plan.resized(growing.sizes), self.call.name)
        return step

    @property
    def launches(self) -> int:
        return int(self.call.size > 0)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        results = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            values[self.outputs[0]] = results
        else:
            values.update(zip(self.outputs, results, strict=True))


@final
class OperatorStep(_Readable):
    """A structured op by itself."""

    def __init__(self, unit: Unit) -> None:
        self._unit, self._sizes = unit, {}
        (node,) = unit.nodes
        self.call: OperatorCall = node.call
        self.inputs = tuple(x.number for x in node.inputs)
        self.output = node.number
        self.cut = node.cut

    def resized(self, growing: Growing) -> OperatorStep | None:
        """The same step for other sizes."""
        call = growing.resized(self.call)
        if call is None:
            return None
        step = self._copy(growing.sizes)
        step.call = call
        return step

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
class PickStep(_Readable):
    """One of several results of a structured op."""

    def __init__(self, unit: Unit) -> None:
        self._unit, self._sizes = unit, {}
        (node,) = unit.nodes
        self.source, self.index, self.output = node.inputs[0].number, node.pick, node.number

    def resized(self, growing: Growing) -> PickStep:
        """The same step for other sizes."""
        return self._copy(growing.sizes)

    @property
    def launches(self) -> int:
        return 0

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        values[self.output] = values[self.source][self.index]


@final
class DetachStep(_Readable):
    """`detach` by itself: other tensors for the same data."""

    launches = 0

    def __init__(self, unit: Unit) -> None:
        self._unit, self._sizes = unit, {}

    def resized(self, growing: Growing) -> DetachStep:
        """The same step for other sizes."""
        return self._copy(growing.sizes)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        for node in self._unit.nodes:
            values[node.number] = values[node.inputs[0].number].detach()


@final
class FusedOperatorStep(_Readable):
    """A structured op with the groups beside it in its kernel."""

    def __init__(self, unit: Unit, device: Device) -> None:
        self._unit, self._sizes = unit, {}
        (node,) = [each for each in unit.nodes if not is_elementwise(each)]
        call: OperatorCall = node.call
        before, after = (_grouped(each, device) for each in (unit.before, unit.after))
        own = node.inputs[1 if before else 0 :]
        inputs = [*(before.inputs if before else ()), *(x.number for x in own)]
        behind = None
        if after is not None:
            value = after.inputs.index(node.number)
            behind = Neighbour(after.plan, value)
            inputs += [number for number in after.inputs if number != node.number]
        self.call = FusedOperatorCall(
            call,
            None if before is None else Neighbour(before.plan),
            behind,
            f"fused({', '.join(each.op_name for each in unit.nodes)})",
        )
        self.inputs = tuple(inputs)
        self.outputs = tuple(each.number for each in unit.outputs)
        self.scalars = Scalars([x for each in (before, after) if each for x in each.scalars])

    def resized(self, growing: Growing) -> FusedOperatorStep | None:
        """The same step for other sizes; None where the kernel cannot hold the groups there."""
        own = self.call
        call = growing.resized(own.made)
        if call is None:
            return None
        before, after = (
            x and replace(x, plan=x.plan.resized(growing.sizes)) for x in (own.before, own.after)
        )
        stretch = stretch_of(call)
        plans = [x.plan for x in (before, after) if x is not None]
        if not all(fits([x for x, _ in y.signature.tensors], y.shape, stretch) for y in plans):
            return None
        step = self._copy(growing.sizes)
        step.call = FusedOperatorCall(call, before, after, own.name)
        return step

    @property
    def launches(self) -> int:
        return len(self.call.bound(False).launches)

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        results = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            results = [results]
        values.update(zip(self.outputs, results, strict=True))


def step_of(unit: Unit) -> Executable:
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
