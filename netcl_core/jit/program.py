"""Programs: a partitioned trace as a sequence of steps that run on operands.

A step is a fused region (a planned call) or a structured op. Steps record their own
nodes, so gradients flow through a program as through any ops.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, final

from netcl_core.codegen.layout import Sizes, renamed
from netcl_core.jit.partition import Unit, is_elementwise, is_leaf, is_small, partition
from netcl_core.jit.steps import Growing, RegionStep, Step, step_of
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.plugins.registry import registry
from netcl_core.tape.trace_node import CONSTANT, INPUT, RANDOM, TraceNode
from netcl_core.tensors.random_state import random_state

#: The namespace of what is fused beyond chains: neighbours of structured ops, parts of functions.
FUSION: Final = "fusion"


@final
@dataclass(eq=False, slots=True)
class Rewritten:
    """A trace after its patterns were applied (by the namespace `patterns`).

    Attributes:
        nodes: All its nodes; numbers grow along it.
        results: Those that the function returns.
        applied: What was replaced, in the order of the groups.
        misses: Where a pattern nearly fitted, and what failed.
        sizes: The sizes that matchers and planners looked at.
        written: How many ops the function itself has.
    """

    nodes: Sequence[TraceNode]
    results: Sequence[TraceNode]
    applied: list[Any] = field(default_factory=list)
    misses: list[Any] = field(default_factory=list)
    sizes: set[int] = field(default_factory=set)
    written: int = 0


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
        units, fusion = partition(nodes, results), registry.space(FUSION)
        if fusion is not None:
            units = fusion.join(units)
        self.steps: list[Step] = [step_of(unit) for unit in units]
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
        running = {node.number for unit in units for node in unit.nodes}
        self.any_sizes = all(_takes_any_sizes(node, running) for node in nodes)
        #: Sizes that the function or what it reads from elsewhere depends on.
        self.fixed: Collection[int] = ()
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
        growing = Growing(sizes, self.fixed)
        steps = []
        for step in self.steps:
            resized = step.resized(growing)
            if resized is None:
                return None
            steps.append(resized)
        now = growing.sizes
        if any(is_small(shape) != is_small(renamed(shape, now)) for shape in self._shapes):
            return None
        program = object.__new__(Program)
        program.__dict__.update(self.__dict__)
        program._sizes, program.steps = now, steps
        program.direct = program._direct()
        return program

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
        results = [values[i] for i in self.results]
        for target in reversed(self.written):  # what is read was read
            target.overwrite(results.pop())
        return results


def _last_uses(units: Sequence[Unit], results: Sequence[int]) -> list[list[int]]:
    """What each unit is the last to need: once let go of, its memory serves the next ones."""
    seen = set(results)
    last_uses: list[list[int]] = []
    for unit in reversed(units):
        numbers = dict.fromkeys(x.number for x in [*unit.inputs, *unit.outputs])
        last_uses.append([number for number in numbers if number not in seen])
        seen.update(numbers)
    return last_uses[::-1]


def _takes_any_sizes(node: TraceNode, running: AbstractSet[int]) -> bool:
    """Whether what stands for a node follows from the shapes of its inputs alone.

    A structured op that is not run would refuse some shapes nevertheless.
    """
    if is_leaf(node) or node.pick is not None or is_elementwise(node):
        return True
    return isinstance(node.call, OperatorCall) and node.number in running
