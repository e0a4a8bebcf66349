"""Partition: which nodes of a trace share a kernel.

Structured ops are boundaries. The elementwise nodes between them are gathered into
groups; a group becomes one region. Every group has one iteration shape: what leaves
it has this shape, and what is smaller is computed along the way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from netcl_core.codegen.expressions import Apply, walk
from netcl_core.codegen.layout import Sizes
from netcl_core.codegen.region import PrimitiveStep, Region
from netcl_core.dtypes import DTYPES
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.trace_node import TraceNode

#: Steps in one kernel: longer ones take the drivers' compilers more than linear time.
MAX_STEPS: Final = 128
#: A small value is computed anew for each element of a larger one if that is cheap:
#: up to this many elements, or without any of the costly functions.
_SMALL: Final = 1 << 16


@final
@dataclass(eq=False)
class Unit:
    """What is launched together: a group of elementwise nodes, or one structured op.

    `outputs` are the nodes that others, or the caller, need. A structured op may hold
    groups: `before` computes its input 0, `after` works on its result; `step(unit, device)` is
    then its step in a program.
    """

    nodes: list[TraceNode]
    elementwise: bool
    outputs: list[TraceNode] = field(default_factory=list)
    before: Unit | None = None
    after: Unit | None = None
    step: Callable[[Unit, Any], Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The iteration shape."""
        return max((node.shape for node in self.nodes), key=_extent)

    @property
    def detaches(self) -> bool:
        """Whether it computes nothing: its results share the data of its inputs."""
        return all(node.op_name == "detach" for node in self.nodes)

    @property
    def inputs(self) -> list[TraceNode]:
        """What the nodes read from elsewhere, in order of first use."""
        own = {node.number for node in self.nodes}
        read: dict[int, TraceNode] = {}
        for node in self.nodes:
            for x in node.inputs:
                if x.number not in own:
                    read[x.number] = x
        return list(read.values())

    def resized(self, sizes: Sizes) -> Unit:
        """The same group with other sizes, for readers."""
        nodes = {node.number: node.resized(sizes) for node in [*self.inputs, *self.nodes]}
        own = [nodes[node.number] for node in self.nodes]
        for node in own:
            node.inputs = [x if x is None else nodes[x.number] for x in node.inputs]
        outputs = [nodes[node.number] for node in self.outputs]
        return Unit(own, self.elementwise, outputs)


def _extent(shape: tuple[int, ...]) -> tuple[int, int]:
    """What grows when a shape is broadcast."""
    return len(shape), sum(size != 1 for size in shape)


def is_leaf(node: TraceNode) -> bool:
    """Whether no op computes this node."""
    return node.call is None and node.pick is None and node.op_name != "detach"


def region_of(node: TraceNode) -> Region | None:
    """The region of an elementwise node; None for a leaf, a structured op and `detach`."""
    return node.call.plan.region if isinstance(node.call, RegionCall) else None


def is_elementwise(node: TraceNode) -> bool:
    """Whether a node is computed element by element."""
    return node.op_name == "detach" or region_of(node) is not None


def is_fusible(node: TraceNode) -> bool:
    """Whether a node may share a kernel with its neighbours."""
    region = region_of(node)
    if region is None:
        return node.op_name == "detach"
    return all(step.primitive.fusible for step in region.steps)


def rounds(node: TraceNode) -> bool:
    """Whether a node's value has to pass through memory: a cast to a 16-bit float rounds there."""
    region = region_of(node)
    return region is not None and any(map(_is_rounding, region.steps))


def _is_rounding(step: PrimitiveStep) -> bool:
    return step.rounds and step.cast is not None and DTYPES[step.cast].wide != step.cast


def partition(nodes: Sequence[TraceNode], results: Iterable[TraceNode]) -> list[Unit]:
    """The units of the nodes that the results need, in an order in which they can run."""
    wanted = {node.number for node in results}
    needed = live(nodes, wanted)
    users: dict[int, list[TraceNode]] = {node.number: [] for node in needed}
    for node in needed:
        for x in node.inputs:
            users[x.number].append(node)
    stage = _stages(needed, users)
    units = _groups(needed, stage)
    _absorb(units, users, wanted, stage)
    units = [part for unit in units for part in _split(unit)]
    _mark_outputs(units, users, wanted)
    return in_order(units)


def live(nodes: Sequence[TraceNode], wanted: set[int]) -> list[TraceNode]:
    """The nodes that those of some numbers need, in order."""
    needed = set(wanted)
    for node in reversed(nodes):
        if node.number in needed:
            needed.update(x.number for x in node.inputs)
    return [node for node in nodes if node.number in needed]


def _stages(nodes: Sequence[TraceNode], users: dict[int, list[TraceNode]]) -> dict[int, int]:
    """A number per node that grows over every boundary: equal ones may share a kernel.

    Elementwise nodes move as late as their users allow, to be fused with them.
    """
    stage: dict[int, int] = {}
    for node in nodes:
        before = [stage[x.number] + rounds(x) for x in node.inputs]
        stage[node.number] = max(before, default=0) + (not is_leaf(node) and not is_fusible(node))
    for node in reversed(nodes):
        if is_fusible(node) and users[node.number]:
            stage[node.number] = max(
                stage[node.number],
                min(
                    stage[user.number] - (rounds(node) or not is_fusible(user))
                    for user in users[node.number]
                ),
            )
    return stage


def _groups(nodes: Sequence[TraceNode], stage: dict[int, int]) -> list[Unit]:
    """Neighbours of one stage and one shape, joined; everything else by itself."""
    unit_of: dict[int, Unit] = {}
    for node in nodes:
        if is_leaf(node):
            continue
        unit = unit_of[node.number] = Unit([node], is_elementwise(node))
        for x in node.inputs:
            if (
                is_leaf(x)
                or not (is_fusible(x) and is_fusible(node))
                or x.shape != node.shape
                or stage[x.number] != stage[node.number]
            ):
                continue
            other = unit_of[x.number]
            if other is not unit:
                other.nodes += unit.nodes
                for member in unit.nodes:
                    unit_of[member.number] = other
                unit = other
    return _siblings(list(dict.fromkeys(unit_of.values())), stage)


def _siblings(units: Sequence[Unit], stage: dict[int, int]) -> list[Unit]:
    """Groups of one stage and shape that read the same value of that shape, joined."""
    joined: list[Unit] = []
    reader: dict[tuple[int, int], Unit] = {}
    for unit in units:
        target = unit
        if unit.elementwise and is_fusible(unit.nodes[0]):
            place = stage[unit.nodes[0].number]
            shared = [(x.number, place) for x in unit.inputs if x.shape == unit.shape]
            target = next((reader[key] for key in shared if key in reader), unit)
            reader |= dict.fromkeys(shared, target)
        if target is unit:
            joined.append(unit)
        else:
            target.nodes += unit.nodes
    for unit in joined:
        unit.nodes.sort(key=lambda node: node.number)
    return joined


def _absorb(
    units: list[Unit],
    users: dict[int, list[TraceNode]],
    wanted: set[int],
    stage: dict[int, int],
) -> None:
    """Move groups of small values into the one group that uses them."""
    unit_of = {node.number: unit for unit in units for node in unit.nodes}
    for unit in sorted(units, key=lambda each: each.nodes[-1].number, reverse=True):
        if not (unit.elementwise and is_fusible(unit.nodes[0])):
            continue
        outside = [
            user
            for node in unit.nodes
            for user in users[node.number]
            if unit_of[user.number] is not unit
        ]
        targets = {id(unit_of[user.number]): unit_of[user.number] for user in outside}
        if len(targets) != 1 or any(node.number in wanted for node in unit.nodes):
            continue
        (target,) = targets.values()
        same_stage = stage[target.nodes[0].number] == stage[unit.nodes[0].number]
        fits = len(_steps(unit)) + len(_steps(target)) <= MAX_STEPS
        fusible = target.elementwise and is_fusible(target.nodes[0])
        if fusible and same_stage and fits and _cheap(unit, target):
            target.nodes = sorted([*unit.nodes, *target.nodes], key=lambda node: node.number)
            for node in unit.nodes:
                unit_of[node.number] = target
            units.remove(unit)


def _cheap(unit: Unit, target: Unit) -> bool:
    size = max(node.size for node in target.nodes)
    few = is_small((size,)) or all(node.size <= 1 for node in unit.nodes)
    return few or is_cheap(unit)


def is_small(shape: Sequence[int]) -> bool:
    """Whether a value of this shape is so small that what it takes hardly matters."""
    return math.prod(shape) <= _SMALL


def is_cheap(unit: Unit) -> bool:
    """Whether a group takes no more than a few instructions for each element."""
    return not any(
        isinstance(part, Apply) and part.op.isalnum() and part.op not in _CHEAP
        for step in _steps(unit)
        for part in walk(step.parsed.forward)
    )


_CHEAP: Final = frozenset({"neg", "fabs", "sign", "floor", "ceil", "fmax", "fmin", "isnan"})


def _steps(unit: Unit) -> list[PrimitiveStep]:
    regions = (region_of(node) for node in unit.nodes)
    return [step for region in regions if region is not None for step in region.steps]


def _split(unit: Unit) -> list[Unit]:
    """A long group of one shape in pieces, each of which needs only earlier ones."""
    if len(unit.nodes) <= MAX_STEPS:
        return [unit]
    starts = range(0, len(unit.nodes), MAX_STEPS)
    return [Unit(unit.nodes[i : i + MAX_STEPS], unit.elementwise) for i in starts]


def _mark_outputs(
    units: Sequence[Unit], users: dict[int, list[TraceNode]], wanted: set[int]
) -> None:
    for unit in units:
        own = {node.number for node in unit.nodes}
        unit.outputs = [
            node
            for node in unit.nodes
            if node.number in wanted or any(user.number not in own for user in users[node.number])
        ]


def in_order(units: Sequence[Unit]) -> list[Unit]:
    """The units sorted so that each comes after those it reads from."""
    unit_of = {node.number: unit for unit in units for node in unit.nodes}
    ordered: dict[int, Unit] = {}

    def needs(unit: Unit) -> list[Unit]:
        makers = (unit_of.get(x.number) for x in unit.inputs)
        return [maker for maker in makers if maker is not None and id(maker) not in ordered]

    stack = [*reversed(units)]
    waiting: set[int] = set()
    while stack:
        unit = stack[-1]
        missing = [] if id(unit) in ordered else needs(unit)
        if missing:
            assert id(unit) not in waiting, "units depend on each other in a circle"
            waiting.add(id(unit))
            stack += missing
        else:
            waiting.discard(id(unit))
            ordered[id(unit)] = unit
            stack.pop()
    return list(ordered.values())
