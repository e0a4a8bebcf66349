"""The steps of a program: a fused region, a structured op, one with its neighbours, and views.

Each is for the sizes of its trace, or, resized, for others that are broadcast alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, final

from netcl_core.codegen.layout import Shape, Sizes, renamed
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.codegen.region import PrimitiveStep, Ref, Region, Signature
from netcl_core.dtypes import category_of_scalar
from netcl_core.hardware.device import Device
from netcl_core.jit.partition import Unit, region_of
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import apply
from netcl_core.tape.modes import no_grad
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.trace_node import TraceNode
from netcl_core.tape.traced_number import TracedNumber

DETACH: Final = AutogradPrimitive("detach", lambda args, _: args[0], lambda *_: [None], 1)


class Step(ABC):
    """One step of a program: what is launched together.

    Attributes:
        outputs: The numbers of the nodes that it computes.
    """

    outputs: tuple[int, ...]

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._sizes: Sizes = {}
        self.outputs = tuple([node.number for node in unit.outputs])

    @property
    def unit(self) -> Unit:
        """The nodes, for readers with the sizes of now."""
        return self._unit.resized(self._sizes) if self._sizes else self._unit

    @property
    def fused(self) -> int:
        """How many ops have their gradients in the backward kernel of another."""
        unit = self._unit
        groups = [x for x in (unit.before, unit.after) if x is not None]
        return len(unit.nodes) - 1 - len(groups)

    @property
    def launches(self) -> int:
        """How many kernels the forward launches."""
        return 0

    @property
    def sources(self) -> list[str]:
        """The rendered kernels of the forward."""
        return []

    @abstractmethod
    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        """Compute from `values`, by number of the trace's nodes, and put the results there."""

    def resized(self, growing: Growing) -> Step | None:
        """The same step for other sizes; None: a new trace has to say."""
        return self.with_sizes(growing.sizes)

    def with_sizes(self, sizes: Sizes) -> Self:
        """A copy for readers with other sizes of now."""
        step = object.__new__(type(self))
        step.__dict__.update(self.__dict__)
        step._sizes = sizes
        return step


@final
class Group:
    """A unit's nodes as one planned region; `inputs` are numbers of nodes."""

    def __init__(self, unit: Unit, device: Device) -> None:
        inputs = unit.inputs
        self.inputs = tuple([x.number for x in inputs])
        self.scalars: list[Any] = []
        self._steps: list[PrimitiveStep] = []
        refs: dict[int, Ref] = {number: ("in", i) for i, number in enumerate(self.inputs)}
        for node in unit.nodes:
            refs[node.number] = self._inlined(node, [refs[x.number] for x in node.inputs])
        outputs = tuple([refs[node.number] for node in unit.outputs])
        region = Region(len(inputs), len(self.scalars), tuple(self._steps), outputs)
        tensors = tuple([(x.shape, x.dtype) for x in inputs])
        categories = tuple(map(category_of_scalar, self.scalars))
        self.plan = Plan(region, device, Signature(tensors, categories))

    def _inlined(self, node: TraceNode, operands: Sequence[Ref]) -> Ref:
        region = region_of(node)
        result = operands[0] if region is None else self._copied(region, operands, node)
        if node.cut:
            self._steps.append(PrimitiveStep(DETACH, (result,)))
            result = ("step", len(self._steps) - 1)
        return result

    def _copied(self, region: Region, operands: Sequence[Ref], node: TraceNode) -> Ref:
        first, slots = len(self._steps), len(self.scalars)
        self.scalars += node.scalars

        def moved(ref: Ref) -> Ref:
            kind, i = ref
            if kind == "in":
                return operands[i]
            return kind, i + (slots if kind == "scalar" else first)

        for step in region.steps:
            refs = tuple(moved(ref) for ref in step.operands)
            attrs = tuple((name, slot + slots) for name, slot in step.attrs)
            self._steps.append(replace(step, operands=refs, attrs=attrs))
        return moved(region.outputs[0])


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


@final
class RegionStep(Step):
    """A fused region."""

    def __init__(self, unit: Unit, device: Device) -> None:
        super().__init__(unit)
        group = Group(unit, device)
        self.call = RegionCall(group.plan, fused_name(group.plan.region))
        self.inputs = group.inputs
        self.scalars = Scalars(group.scalars)

    def resized(self, growing: Growing) -> RegionStep:
        """The same step for other sizes: nothing but shapes is worked out again."""
        step = self.with_sizes(growing.sizes)
        step.call = RegionCall(self.call.plan.resized(growing.sizes), self.call.name)
        return step

    @property
    def launches(self) -> int:
        return int(self.call.size > 0)

    @property
    def sources(self) -> list[str]:
        return [self.call.plan.forward.generated.text]

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        results = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            values[self.outputs[0]] = results
        else:
            values.update(zip(self.outputs, results, strict=True))


@final
class OperatorStep(Step):
    """A structured op by itself."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        (node,) = unit.nodes
        self.call: OperatorCall = node.call
        self.inputs = tuple([x.number for x in node.inputs])
        self.output = node.number
        self.cut = node.cut

    def resized(self, growing: Growing) -> OperatorStep | None:
        call = growing.resized(self.call)
        if call is None:
            return None
        step = self.with_sizes(growing.sizes)
        step.call = call
        return step

    @property
    def launches(self) -> int:
        return len(self.call.launched)

    @property
    def sources(self) -> list[str]:
        return [kernel.source for kernel in self.call.launched]

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        if self.cut:
            with no_grad():
                values[self.output] = apply(self.call, operands)
        else:
            values[self.output] = apply(self.call, operands)


@final
class PickStep(Step):
    """One of several results of a structured op."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit)
        (node,) = unit.nodes
        self.source, self.index, self.output = node.inputs[0].number, node.pick, node.number

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        values[self.output] = values[self.source][self.index]


@final
class DetachStep(Step):
    """`detach` by itself: other tensors for the same data."""

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        for node in self._unit.nodes:
            values[node.number] = values[node.inputs[0].number].detach()


def step_of(unit: Unit) -> Step:
    """The step of a unit."""
    device = unit.nodes[0].device
    assert device is not None  # its operands lie there
    if unit.detaches:
        return DetachStep(unit)
    if unit.elementwise:
        return RegionStep(unit, device)
    if unit.nodes[0].pick is not None:
        return PickStep(unit)
    step: Step = OperatorStep(unit) if unit.step is None else unit.step(unit, device)
    return step
