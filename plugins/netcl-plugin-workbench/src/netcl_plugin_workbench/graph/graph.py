"""The graph of a compiled function: boxes for its kernels and tensors, edges for its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core.jit.explanation import why_alone
from netcl_core.jit.program import (
    Executable,
    FusedOperatorStep,
    OperatorStep,
    Program,
    RegionStep,
)
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.tape.node import describe_frame as where
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tape.tracing import CONSTANT, RANDOM, TraceNode

LAUNCH: Final = "launch"
CALL: Final = "NumPy call"
#: The kinds of boxes, and what each is called.
KINDS: Final = {
    "region": "fused region",
    "operator": "fused operator",
    "op": "single op",
    "view": "view",
    "argument": "argument",
    "constant": "constant",
    "result": "result",
}


@final
@dataclass(frozen=True, slots=True)
class DrawnOp:
    """One op: the name of its value, how it is computed, and the line that asked for it."""

    value: str
    op: str
    text: str
    dtype: str
    shape: tuple[int, ...]
    source: str


@final
@dataclass(frozen=True, slots=True)
class Box:
    """A box of the graph; `kind` is one of KINDS, `note` says why a single op is alone.

    `launches` are the kernels that it launches, on NumPy the calls of functions: `unit`
    says which.
    """

    id: str
    kind: str
    title: str
    ops: tuple[DrawnOp, ...] = ()
    launches: int = 0
    unit: str = LAUNCH
    note: str = ""


@final
@dataclass(frozen=True, slots=True)
class Edge:
    """A value that goes from one box to another."""

    source: str
    target: str
    value: str
    dtype: str
    shape: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled function; the boxes stand in an order in which they can run.

    `launches` counts those of the forward, `unfused` those of its ops one by one; `unread`
    are ops whose values nothing reads, so that they are left out.
    """

    function: str
    device: str
    unit: str
    ops: int
    launches: int
    unfused: int
    unread: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


@final
@dataclass(frozen=True, slots=True)
class GraphNames:
    """What the user's code calls the tensors, the numbers, the results and the constants."""

    tensors: Sequence[str] = ()
    numbers: Sequence[str] = ()
    results: Sequence[str] = ()
    constants: Mapping[int, str] | None = None


def graph_of(function: str, program: Program, names: GraphNames) -> Graph:
    """The graph of a program."""
    return _GraphBuilder(program, names).graph(function)


@final
class _GraphBuilder:
    def __init__(self, program: Program, names: GraphNames) -> None:
        self.program = program
        self.names = names
        self.boxes: list[Box] = []
        self.edges: list[Edge] = []
        self.home: dict[int, str] = {}  # the box of each value
        self.values: dict[int, str] = {}  # and its name

    def graph(self, function: str) -> Graph:
        program = self.program
        computed = [node for node in program.nodes if node.call is not None]
        live = {node.number for step in program.steps for node in step.unit.nodes}
        device = next((node.device for node in program.nodes), None)
        numpy = device is not None and device.backend == "numpy"
        unit = CALL if numpy else LAUNCH
        self._add_arguments()
        self._add_constants()
        self._name_ops(sorted(live))
        for number, step in enumerate(program.steps, start=1):
            self._add_step(number, step, unit)
        self._add_results()
        return Graph(
            function,
            str(device),
            unit,
            len(computed),
            sum(box.launches for box in self.boxes),
            sum(_alone(node, numpy) for node in computed),
            sum(node.number not in live for node in computed),
            tuple(self.boxes),
            tuple(self.edges),
        )

    def _place(self, node: TraceNode, box: Box, name: str) -> None:
        self.boxes.append(box)
        self.home[node.number] = box.id
        self.values[node.number] = name

    def _add_arguments(self) -> None:
        for i, number in enumerate(self.program.inputs):
            name = _at(self.names.tensors, i, f"argument {i}")
            note = "not used" if i in self.program.unused else ""
            box = Box(f"argument{i}", "argument", name, note=note)
            self._place(self.program.nodes[number], box, name)

    def _add_constants(self) -> None:
        known = self.names.constants or {}
        read = {x.number for step in self.program.steps for x in step.unit.inputs}
        leaves = [n for n in self.program.nodes if n.op_name in (CONSTANT, RANDOM)]
        wanted = [n for n in leaves if n.number in read | set(self.program.results)]
        for i, node in enumerate(wanted):
            plain = "random state" if node.op_name == RANDOM else f"constant {i}"
            name = known.get(id(node.tensor), plain)
            self._place(node, Box(f"constant{i}", "constant", name), name)

    def _name_ops(self, live: Sequence[int]) -> None:
        prefix = "t"
        taken = set(self.values.values()) | set(self.names.numbers)
        while any(name.startswith(prefix) and name[len(prefix) :].isdigit() for name in taken):
            prefix += "_"
        for i, number in enumerate(live, start=1):
            self.values[number] = f"{prefix}{i}"

    def _add_step(self, number: int, step: Executable, unit: str) -> None:
        key = f"step{number}"
        kind = _kind(step)
        ops = tuple(self._op(node) for node in step.unit.nodes)
        launches = step.launches if unit is LAUNCH else int(kind != "view")
        title = f"{number} · {KINDS[kind]}"
        box = Box(key, kind, title, ops, launches, unit, why_alone(step) or "")
        for x in step.unit.inputs:
            self._connect(x, key)
        self.boxes.append(box)
        self.home |= {node.number: key for node in step.unit.nodes}

    def _add_results(self) -> None:
        for i, number in enumerate(self.program.results):
            name = _at(self.names.results, i, f"result {i}")
            self.boxes.append(Box(f"result{i}", "result", name))
            self._connect(self.program.nodes[number], f"result{i}")

    def _connect(self, node: TraceNode, target: str) -> None:
        source, value = self.home[node.number], self.values[node.number]
        self.edges.append(Edge(source, target, value, node.dtype, node.shape))

    def _op(self, node: TraceNode) -> DrawnOp:
        text = f"{node.op_name}({', '.join(self._operands(node))})"
        value = self.values[node.number]
        return DrawnOp(value, node.op_name, text, node.dtype, node.shape, where(node.frame))

    def _operands(self, node: TraceNode) -> list[str]:
        """What the op was given, in the order of its signature as far as that is known."""
        tensors = [self.values[x.number] for x in node.inputs]
        scalars = [self._number(x) for x in node.scalars]
        if isinstance(node.call, RegionCall) and len(node.call.plan.region.steps) == 1:
            (step,) = node.call.plan.region.steps
            given = [str((tensors if kind == "in" else scalars)[i]) for kind, i in step.operands]
            given += [f"{name}={scalars[i]}" for name, i in step.attrs]
            given += [f"{name}={x!r}" for name, x in step.choices if x is not None]
            return given + ([repr(step.cast)] if step.cast else [])
        said = {name: x for name, x in node.attrs.items() if x is not None and x is not False}
        attrs = [f"{name}={x!r}" for name, x in said.items()]
        return [*tensors, *scalars, *attrs]

    def _number(self, value: Any) -> str:
        if type(value) is TracedNumber:
            return _at(self.names.numbers, value.index, f"number {value.index}")
        return f"{value:g}" if isinstance(value, float) else repr(value)


def _at(names: Sequence[str], i: int, otherwise: str) -> str:
    return names[i] if i < len(names) else otherwise


def _kind(step: Executable) -> str:
    if isinstance(step, FusedOperatorStep):
        return "operator"
    if isinstance(step, OperatorStep) and step.call.operator.view:
        return "view"
    return "region" if isinstance(step, RegionStep) and len(step.unit.nodes) > 1 else "op"


def _alone(node: TraceNode, numpy: bool) -> int:
    """How many kernels an op launches by itself; on NumPy, functions that it calls."""
    if isinstance(node.call, RegionCall):
        return int(node.call.size > 0)
    call: OperatorCall = node.call
    return int(not call.operator.view) if numpy else len(call.launched)
