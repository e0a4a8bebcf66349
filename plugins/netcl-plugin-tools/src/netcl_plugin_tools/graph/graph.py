"""The graph of a compiled function: boxes for its kernels and tensors, edges for its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_plugin_fusion.explanation import why_alone
from netcl_plugin_fusion.neighbours import FusedOperatorStep

from netcl_core.autograd import TraceNode
from netcl_core.inspect.programs import (
    CONSTANT,
    RANDOM,
    DetachStep,
    OperatorStep,
    Program,
    RegionStep,
    Step,
    TracedNumber,
)
from netcl_core.inspect.recorded import OperatorCall, RegionCall
from netcl_core.inspect.recorded import describe_frame as where
from netcl_plugin_tools.graph.drawing import (
    KINDS,
    DrawnOp,
    Edge,
    count,
    free_prefix,
    number_text,
    op_text,
)

LAUNCH: Final = "launch"
CALL: Final = "NumPy call"


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

    @property
    def remark(self) -> str:
        """The launches and the note, or what a box without ops is."""
        if not self.ops:
            kind = "returned" if self.kind == "result" else KINDS[self.kind]
            return f"{kind}, {self.note}" if self.note else kind
        launches = count(self.launches, self.unit) if self.launches else f"no {self.unit}"
        return f"{launches}. Not fused: {self.note}" if self.note else launches


@final
@dataclass(frozen=True, slots=True)
class DrawnGraph:
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

    @property
    def heading(self) -> str:
        """The function's name."""
        return self.function

    @property
    def summary(self) -> list[str]:
        """What a drawing says at its head, in sentences."""
        groups = sum(bool(box.ops) for box in self.boxes)
        lines = [
            f"{count(self.ops, 'op')} in {count(groups, 'group')} on {self.device}.",
            f"{count(self.launches, self.unit)}, with each op by itself {self.unfused}.",
        ]
        if self.unread:
            lines.append(f"{count(self.unread, 'op')} left out: nothing reads the result.")
        return lines


@final
@dataclass(frozen=True, slots=True)
class GraphNames:
    """What the user's code calls the tensors, the numbers, the results and the constants."""

    tensors: Sequence[str] = ()
    numbers: Sequence[str] = ()
    results: Sequence[str] = ()
    constants: Mapping[int, str] | None = None


def graph_of(function: str, program: Program, names: GraphNames) -> DrawnGraph:
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

    def graph(self, function: str) -> DrawnGraph:
        program = self.program
        computed = [node for node in program.nodes if node.call is not None]
        live = {node.number for step in program.steps for node in step.unit.nodes}
        device = next((node.device for node in program.nodes), None)
        numpy = device is not None and not device.has_kernels
        unit = CALL if numpy else LAUNCH
        self._add_arguments()
        self._add_constants()
        self._name_ops(sorted(live))
        for number, step in enumerate(program.steps, start=1):
            self._add_step(number, step, unit)
        self._add_results()
        return DrawnGraph(
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
        prefix = free_prefix([*self.values.values(), *self.names.numbers])
        for i, number in enumerate(live, start=1):
            self.values[number] = f"{prefix}{i}"

    def _add_step(self, number: int, step: Step, unit: str) -> None:
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
        tensors = [self.values[x.number] for x in node.inputs]
        scalars = [self._number(x) for x in node.scalars]
        text = op_text(node.op_name, node.call, tensors, scalars, node.attrs)
        value = self.values[node.number]
        return DrawnOp(value, node.op_name, text, node.dtype, node.shape, where(node.frame))

    def _number(self, value: Any) -> str:
        if type(value) is TracedNumber:
            return _at(self.names.numbers, value.index, f"number {value.index}")
        return number_text(value)


def _at(names: Sequence[str], i: int, otherwise: str) -> str:
    return names[i] if i < len(names) else otherwise


def _kind(step: Step) -> str:
    if isinstance(step, FusedOperatorStep):
        return "operator"
    if isinstance(step, DetachStep) or (isinstance(step, OperatorStep) and step.call.operator.view):
        return "view"
    return "region" if isinstance(step, RegionStep) and len(step.unit.nodes) > 1 else "op"


def _alone(node: TraceNode, numpy: bool) -> int:
    """How many kernels an op launches by itself; on NumPy, functions that it calls."""
    if isinstance(node.call, RegionCall):
        return int(node.call.size > 0)
    call: OperatorCall = node.call
    return int(not call.operator.view) if numpy else len(call.launched)
