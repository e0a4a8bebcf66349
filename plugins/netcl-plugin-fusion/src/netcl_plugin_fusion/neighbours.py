"""Neighbours: elementwise groups that move into the kernel of a structured op beside them, and the
step that runs all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final

from netcl_core import DTYPES, Device
from netcl_core.autograd import Implementation, TraceNode
from netcl_core.errors import NetclError
from netcl_core.inspect.programs import (
    Group,
    Growing,
    Scalars,
    Step,
    Unit,
    in_order,
    is_cheap,
    is_elementwise,
    is_fusible,
)
from netcl_core.inspect.recorded import OperatorCall, apply
from netcl_plugin_fusion import joined_casts
from netcl_plugin_fusion.fused_operator import FusedOperatorCall, Neighbour
from netcl_plugin_fusion.inline import fits


def join(units: Sequence[Unit]) -> list[Unit]:
    """The units with as many groups as possible moved into structured ops, in order.

    An input is computed where it is read rather than a result changed where it is
    written, if both are possible: then nothing in between is stored. Casts that are left by
    themselves are joined.
    """
    joined = list(units)
    for attempt in (_take_before, _take_after):
        for unit in list(joined):
            if unit in joined and not unit.elementwise:
                attempt(unit, joined)
    return in_order(joined_casts.join(joined))


def implementation_of(unit: Unit) -> Implementation | None:
    """The implementation that would run a structured op; None if nothing is launched, or for
    one with several results."""
    call = unit.nodes[-1].call
    if call is None or not call.launches or len(call.results) > 1:
        return None
    try:
        return call.implementation  # type: ignore[no-any-return]
    except NetclError:  # the run itself will say so
        return None


def _take_before(unit: Unit, units: list[Unit]) -> None:
    """Move the group that computes the op's input 0, and nothing else, into its kernel."""
    implementation = implementation_of(unit)
    node = unit.nodes[0]
    source = node.inputs[0] if node.inputs else None
    if implementation is None or not implementation.prologue or source is None or node.cut:
        return
    if not source.size:  # then no implementation is asked anything
        return
    if sum(x is source for x in node.inputs) != 1:
        return
    group = next(
        (other for other in units if other.elementwise and other.outputs == [source]), None
    )
    if group is None or group.detaches or _users(source, units) != 1:
        return
    if not _movable(group, unit):
        return
    if implementation.rereads and not is_cheap(group):
        return
    if DTYPES[source.dtype].floating and group.shape == source.shape:
        unit.before, unit.step = group, FusedOperatorStep
        unit.nodes = [*group.nodes, *unit.nodes]
        units.remove(group)


def _take_after(unit: Unit, units: list[Unit]) -> None:
    """Move the one group that reads the op's result into its kernel."""
    implementation = implementation_of(unit)
    node = unit.nodes[-1]
    if implementation is None or not implementation.epilogue or node.cut:
        return
    if not all(x.size for x in node.inputs):
        return
    if not DTYPES[node.dtype].floating or _users(node, units) != 1 or node not in unit.outputs:
        return
    group = next((other for other in units if other is not unit and node in other.inputs), None)
    if group is None or not group.elementwise or group.detaches or group.shape != node.shape:
        return
    if _movable(group, unit) and not _depends(group, unit, units):
        unit.after, unit.step = group, FusedOperatorStep
        unit.nodes = [*unit.nodes, *group.nodes]
        unit.outputs = group.outputs
        units.remove(group)


def _movable(group: Unit, unit: Unit) -> bool:
    call = next(node for node in unit.nodes if not is_elementwise(node)).call
    shapes = [x.shape for x in group.inputs]
    return is_fusible(group.nodes[0]) and fits(shapes, group.shape, stretch_of(call))


def stretch_of(call: OperatorCall) -> int:
    """How many elements in a row the implementation of a structured op works on, or 0."""
    stretch = call.implementation.stretch
    return 0 if stretch is None else stretch(call.request)


def _users(node: TraceNode, units: Sequence[Unit]) -> int:
    """How many units read a value; one that is a result of the function counts as read twice."""
    return sum(node in unit.inputs for unit in units) + node.is_result


def _depends(group: Unit, unit: Unit, units: Sequence[Unit]) -> bool:
    """Whether an input of the group, other than the op's result, depends on the op."""
    maker: Callable[[int], Unit | None] = {
        node.number: other for other in units for node in other.nodes
    }.get
    own = unit.nodes[-1]
    stack = [x for x in group.inputs if x is not own]
    seen: set[int] = set()
    while stack:
        made_by = maker(stack.pop().number)
        if made_by is unit:
            return True
        if made_by is not None and id(made_by) not in seen:
            seen.add(id(made_by))
            stack += made_by.inputs
    return False


@final
class FusedOperatorStep(Step):
    """A structured op with the groups beside it in its kernel."""

    def __init__(self, unit: Unit, device: Device) -> None:
        super().__init__(unit)
        (node,) = [member for member in unit.nodes if not is_elementwise(member)]
        call: OperatorCall = node.call
        before, after = (group and Group(group, device) for group in (unit.before, unit.after))
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
            f"fused({', '.join(member.op_name for member in unit.nodes)})",
        )
        self.inputs = tuple(inputs)
        self.scalars = Scalars([x for group in (before, after) if group for x in group.scalars])

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
        step = self.with_sizes(growing.sizes)
        step.call = FusedOperatorCall(call, before, after, own.name)
        return step

    @property
    def launches(self) -> int:
        return len(self.call.bound(False).launches)

    @property
    def sources(self) -> list[str]:
        return [kernel.source for kernel in self.call.bound(False).launches]

    def run(self, values: dict[int, Any], numbers: Sequence[Any]) -> None:
        operands = [values[i] for i in self.inputs]
        results = apply(self.call, operands, self.scalars.given(numbers))
        if len(self.outputs) == 1:
            results = [results]
        values.update(zip(self.outputs, results, strict=True))
