"""The graph of a recorded tape: a box for each call and for what was given, edges for values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from netcl_plugin_fusion.fused_operator import FusedOperatorCall

from netcl_core.autograd import Node
from netcl_core.inspect.recorded import OperatorCall, RegionCall, Target, line_of
from netcl_plugin_tools.graph.drawing import (
    KINDS,
    DrawnOp,
    Edge,
    count,
    free_prefix,
    number_text,
    op_text,
)
from netcl_plugin_tools.graph.recorded import RecordedCall, RecordedGraph


@final
@dataclass(frozen=True, slots=True)
class TapeBox:
    """A box of the graph; `kind` is one of KINDS, `note` the user's line and what is to be told."""

    id: str
    kind: str
    title: str
    ops: tuple[DrawnOp, ...] = ()
    note: str = ""

    @property
    def remark(self) -> str:
        """The note, or what a box without ops is."""
        return self.note if self.ops else self.note or KINDS[self.kind]


@final
@dataclass(frozen=True, slots=True)
class TapeGraph:
    """What a tape recorded; the boxes stand in the order in which the calls were made.

    `ops` counts the calls, `leaves` the leaves to which a backward pass goes.
    """

    name: str
    device: str
    ops: int
    leaves: int
    boxes: tuple[TapeBox, ...]
    edges: tuple[Edge, ...]

    @property
    def heading(self) -> str:
        """The name."""
        return self.name

    @property
    def summary(self) -> list[str]:
        """What a drawing says at its head, in sentences."""
        if not self.ops:
            return ["Nothing was recorded: no gradient flows through any op."]
        return [
            f"{count(self.ops, 'op')} recorded on {self.device}.",
            f"A backward pass goes against the arrows, to {count(self.leaves, 'leaf', 'leaves')}.",
        ]


def tape_graph(
    name: str,
    recorded: RecordedGraph,
    names: Mapping[Target, str],
    results: Sequence[tuple[str, Target]] = (),
) -> TapeGraph:
    """The graph of what was recorded.

    `names` are those that the user's code has for values. A value that was returned, as
    `results` say, has a box for it, as has one that nothing reads.
    """
    return _TapeGraphBuilder(recorded, names).graph(name, results)


def lines(graph: TapeGraph) -> Iterator[str]:
    """A graph as text: what it is, then a line per value that an op made."""
    yield f"{graph.heading}: {' '.join(graph.summary)}"
    ops = [(box, op) for box in graph.boxes for op in box.ops]
    for number, (box, op) in enumerate(ops, start=1):
        note = f"  ({box.note})" if box.note else ""
        yield f"{number:3}. {op.value} = {op.text}: {op.dtype}{list(op.shape)}{note}"


@final
class _TapeGraphBuilder:
    def __init__(self, recorded: RecordedGraph, names: Mapping[Target, str]) -> None:
        self.recorded = recorded
        self.boxes: list[TapeBox] = []
        self.edges: list[Edge] = []
        self.home: dict[Target, str] = {}  # the box of each value
        self.values = {target: names[target] for target in recorded.values if target in names}

    def graph(self, name: str, results: Sequence[tuple[str, Target]]) -> TapeGraph:
        self._add_given()
        self._name_results()
        for number, call in enumerate(self.recorded.calls, start=1):
            self._add_call(number, call)
        self._add_results(results)
        devices = {str(node.device): None for node in self.recorded.values.values()}
        leaves = sum(box.kind == "leaf" for box in self.boxes)
        return TapeGraph(
            name,
            ", ".join(devices),
            len(self.recorded.calls),
            leaves,
            tuple(self.boxes),
            tuple(self.edges),
        )

    def _add_given(self) -> None:
        """Boxes for the values that none of the calls made."""
        results = {target for call in self.recorded.calls for target in call.results}
        numbers: dict[str, int] = {}
        for target, node in self.recorded.values.items():
            if target not in results:
                kind = _kind_of_given(node)
                number = numbers[kind] = numbers.get(kind, -1) + 1
                name = self.values.setdefault(target, f"{_word(node, kind)} {number}")
                note = f"{KINDS[kind]}, of {node.op_name}" if node.op_name else ""
                self.home[target] = f"{kind}{number}"
                self.boxes.append(TapeBox(f"{kind}{number}", kind, name, note=note))

    def _name_results(self) -> None:
        prefix = free_prefix(self.values.values())
        results = [target for call in self.recorded.calls for target in call.results]
        for number, target in enumerate(results, start=1):
            self.values.setdefault(target, f"{prefix}{number}")

    def _add_call(self, number: int, call: RecordedCall) -> None:
        key, record = f"call{number}", call.record
        for target in call.inputs:
            self._connect(target, key)
        ops = tuple(self._op(call, target) for target in call.results)
        title = f"{number} · {record.op_name}"
        self.boxes.append(TapeBox(key, _kind(record.call), title, ops, self._note(call)))
        self.home |= dict.fromkeys(call.results, key)

    def _add_results(self, returned: Sequence[tuple[str, Target]]) -> None:
        """Boxes for what was returned, and for what no call reads, such as a loss."""
        results = [target for call in self.recorded.calls for target in call.results]
        ended = {target for call in self.recorded.calls for target in call.inputs}
        wanted = [(name, target, "returned") for name, target in returned if target in self.home]
        ended |= {target for _, target, _ in wanted}
        wanted += [
            (self.values[result], result, "read by no op")
            for result in results
            if result not in ended
        ]
        for number, (name, target, note) in enumerate(wanted):
            self.boxes.append(TapeBox(f"result{number}", "result", name, note=note))
            self._connect(target, f"result{number}")

    def _connect(self, target: Target, key: str) -> None:
        node = self.recorded.values[target]
        self.edges.append(
            Edge(self.home[target], key, self.values[target], node.dtype, tuple(node.shape))
        )

    def _op(self, call: RecordedCall, target: Target) -> DrawnOp:
        record, node = call.record, self.recorded.values[target]
        name = str(record.op_name)
        tensors = [self.values[each] for each in call.inputs]
        scalars = [number_text(scalar) for scalar in record.scalars]
        attrs = record.call.attrs if isinstance(record.call, OperatorCall) else {}
        text = op_text(name, record.call, tensors, scalars, attrs)
        if len(record.call.results or (None,)) > 1:
            text += f"[{node.index}]"
        return DrawnOp(
            self.values[target], name, text, node.dtype, tuple(node.shape), record.made_at
        )

    def _note(self, call: RecordedCall) -> str:
        """The user's line, in short, and which inputs are no longer what the gradient needs."""
        frame = call.record.frame
        parts = []
        if frame is not None:
            file, line = line_of(frame)
            parts.append(f"{Path(file).name}:{line}")
        changed = {id(x) for x, version in call.record.versions if x.version != version}
        names = {
            self.values[target]: None
            for target, x in zip(call.inputs, call.record.inputs, strict=True)
            if id(getattr(x, "value", x)) in changed
        }
        if names:
            parts.append(f"Changed in place since: {', '.join(names)}")
        return ". ".join(parts)


def _kind_of_given(node: Node) -> str:
    if not node.is_leaf:
        return "elsewhere"
    return "leaf" if node.requires_grad else "constant"


def _word(node: Node, kind: str) -> str:
    """What a value without a name is called, before its number."""
    return str(node.op_name) if kind == "elsewhere" else kind


def _kind(call: Any) -> str:
    if isinstance(call, FusedOperatorCall):
        return "operator"
    if isinstance(call, OperatorCall) and call.operator.view:
        return "view"
    return "region" if isinstance(call, RegionCall) and len(call.plan.region.steps) > 1 else "op"
