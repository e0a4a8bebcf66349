"""Results of one kernel, of which one follows from another: gradients of the one by the other.

A fused kernel computes several results from its inputs, and its record leads to these alone. Where
someone asks for the gradient of a result, those that follow from it are recorded anew, as computed
from it. Nothing is launched for that: a region computes again what its gradients need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netcl_core.autograd import Node
from netcl_core.inspect.recorded import RegionCall, move_hooks
from netcl_core.inspect.sources import Plan, PrimitiveStep, Ref, Region, Signature


def separate(node: Node) -> None:
    """Let what a kernel has computed from a result beside it be recorded as computed from it.

    `node` is a result of a call that has several and a `region_of`.
    """
    owner = node if node.source is None else node.source
    planned = owner.call.region_of(owner.inputs, owner.scalars)
    if planned is None or not owner.inputs:
        return
    region = planned[0].region
    own = region.outputs[node.index]
    for index, ref in enumerate(region.outputs):
        results = owner, *owner.others()  # also those of a graph, whose elements are gone
        followers = [result for result in results if result.index == index != node.index]
        if followers and ref != own and own[0] == "step":
            rest = _Rest(region, own).made(ref)
            if rest is not None:
                _record(node, followers, owner, rest, planned)
                owner = node if node.source is None else node.source


class _Rest:
    """The steps of a region from one of its values on."""

    def __init__(self, region: Region, start: Ref) -> None:
        self._region, self._start = region, start
        self._refs: dict[Ref, Ref] = {}
        self._steps: list[PrimitiveStep] = []
        self.inputs: list[int] = []
        self.scalars: list[int] = []
        self.follows = False

    def made(self, end: Ref) -> tuple[Region, _Rest] | None:
        """The region to a value, with the start as its last input; None: it does not follow."""
        result = self._ref(end)
        if not self.follows:
            return None
        count = len(self.inputs)
        last = {("in", -1): ("in", count)}
        steps = [
            replace(step, operands=tuple([last.get(ref, ref) for ref in step.operands]))
            for step in self._steps
        ]
        return Region(count + 1, len(self.scalars), tuple(steps), (result,)), self

    def _ref(self, ref: Ref) -> Ref:
        if ref == self._start:
            self.follows = True
            return "in", -1
        moved = self._refs.get(ref)
        if moved is None:
            moved = self._refs[ref] = self._moved(ref)
        return moved

    def _moved(self, ref: Ref) -> Ref:
        kind, i = ref
        if kind == "in":
            self.inputs.append(i)
            return "in", len(self.inputs) - 1
        if kind == "scalar":
            self.scalars.append(i)
            return "scalar", len(self.scalars) - 1
        step = self._region.steps[i]
        operands = tuple([self._ref(operand) for operand in step.operands])
        attrs = tuple([(name, self._ref(("scalar", slot))[1]) for name, slot in step.attrs])
        self._steps.append(replace(step, operands=operands, attrs=attrs))
        return "step", len(self._steps) - 1


def _record(
    node: Node, followers: Sequence[Node], owner: Node, derived: tuple[Region, _Rest], planned: Any
) -> None:
    plan, inputs, scalars = planned
    region, rest = derived
    if any(inputs[i] is None for i in rest.inputs):
        return  # it also reads a value that the kernel has kept for itself
    given = [*(inputs[i] for i in rest.inputs), node]
    signature = Signature(
        tuple([(x.shape, x.dtype) for x in given]),
        tuple([plan.signature.scalars[i] for i in rest.scalars]),
        plan.shape,
    )
    call = RegionCall(Plan(region, plan.device, signature), region.name)
    needs = tuple([x.requires_grad for x in given])
    if True not in call.flows(needs):
        return
    first, *others = followers
    if first is owner:
        _hand_over(owner, node)
        owner = node
    move_hooks(owner, first.index, first, 0)
    first.number, node.number = max(first.number, node.number), min(first.number, node.number)
    first.call, first.index, first.source, first.kept = call, 0, None, None
    first.inputs, first.needs = given, needs
    first.scalars = [scalars[i] for i in rest.scalars]
    values = [x.value for x in given]
    first.versions = tuple([(values[i], values[i].version) for i in call.saves(needs)])
    for other in others:
        other.call, other.index, other.source = call, 0, first
        first._know(other)


def _hand_over(owner: Node, node: Node) -> None:
    """Let another result hold the record of a call."""
    index, number, value = node.index, node.number, node.value
    others = owner.others()
    node.take_over(owner)
    node.index, node.number, node.value = index, number, value
    for other in others:
        if other is not node:
            other.source = node
            node._know(other)
    owner._others = ()
    for i in range(len(node.call.results)):
        move_hooks(owner, i, node, i)
