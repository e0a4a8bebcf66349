"""Readings: what a value of a finished trace is the result of, seen as a call of one op.

A value may have several: `mse_loss` is one op to who wrote it, and ends in a `mean`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from netcl_core import Device
from netcl_core.autograd import AutogradPrimitive, TraceNode
from netcl_core.inspect.programs import Span, is_leaf, live, region_of
from netcl_core.inspect.recorded import OperatorCall
from netcl_core.inspect.sources import PrimitiveStep
from netcl_core.plugins.protocol import registry


@final
@dataclass(frozen=True, eq=False, slots=True)
class Reading:
    """A value as one of the results of a call.

    Attributes:
        op: The op's name, whichever of its names the function used.
        operands: TraceNodes, Python numbers, and None where one is absent.
        attrs: The op's metadata, complete.
        result: Which result the value is.
        cut: Whether the call passes no gradient on.
        commutative: Whether the operands may be swapped.
        inner: The numbers of the nodes that the call made, the value among them.
        written: The name that the function used.
    """

    op: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any]
    result: int
    cut: bool
    commutative: bool
    inner: frozenset[int]
    written: str


@final
class Traced:
    """A finished trace: its live nodes, who reads them, and what they can be read as."""

    def __init__(
        self, nodes: Sequence[TraceNode], results: Sequence[TraceNode], spans: Sequence[Span]
    ) -> None:
        self.nodes = nodes
        self.results = {node.number for node in results}
        self.live = live(nodes, self.results)
        self.users: dict[int, list[int]] = {node.number: [] for node in self.live}
        for node in self.live:
            for x in node.inputs:
                self.users[x.number].append(node.number)
        self._spans: dict[int, list[tuple[Span, int]]] = {}
        for span in spans:
            for i, node in enumerate(span.results):
                self._spans.setdefault(node.number, []).append((span, i))
        self._readings: dict[int, list[Reading]] = {}
        self._names: dict[str, str] = {}
        #: The sizes that a matcher looked at.
        self.sizes: set[int] = set()

    @cached_property
    def by_op(self) -> dict[str, list[TraceNode]]:
        """The live values that are a result of each op."""
        by_op: dict[str, list[TraceNode]] = {}
        for node in self.live:
            for op in dict.fromkeys(reading.op for reading in self.readings(node)):
                by_op.setdefault(op, []).append(node)
        return by_op

    def canonical(self, op: str) -> str:
        """The name of an op that has several."""
        if op not in self._names:
            row = registry.find_op(op)
            record = None if row is None else row.record
            alias = isinstance(record, AutogradPrimitive) and record.alias_of
            self._names[op] = alias or op
        return self._names[op]

    def readings(self, node: TraceNode) -> list[Reading]:
        """All ways to read a value, the ops that are made of most others first."""
        readings_of = self._readings.get(node.number)
        if readings_of is None:
            spans = reversed(self._spans.get(node.number, ()))
            readings_of_spans = [_of_span(self.nodes, node, span, i) for span, i in spans]
            own = None if is_leaf(node) else _of_node(node)
            readings_of = [reading for reading in (*readings_of_spans, own) if reading is not None]
            self._readings[node.number] = readings_of
        return readings_of


def _of_span(
    nodes: Sequence[TraceNode], node: TraceNode, span: Span, result: int
) -> Reading | None:
    """The reading as an op that is made of others; None if it used what it was not given."""
    given = {x.number for x in span.operands if x is not None}
    inner: set[int] = set()
    stack = [] if node.number in given else [node]
    while stack:
        each = stack.pop()
        if each.number in inner or each.number in given:
            continue
        if each.number < span.first:
            return None
        inner.add(each.number)
        stack += each.inputs
    return Reading(
        span.op, span.operands, span.attrs, result, span.cut, False, frozenset(inner), span.op
    )


def _of_node(node: TraceNode) -> Reading | None:
    """The reading as what was noted; None for a region that is not one op."""
    start, result, inner = node, 0, {node.number}
    if node.pick is not None:
        start, result = node.inputs[0], node.pick
        inner.add(start.number)
    call, region = start.call, region_of(start)
    op, commutative = start.op_name, False
    operands: tuple[Any, ...] = tuple(start.inputs)
    if isinstance(call, OperatorCall):
        places = dict(zip(call.present, start.inputs, strict=True))
        operands = tuple([places.get(i) for i in range(len(call.specs))])
    elif region is not None:
        if len(region.steps) != 1:
            return None
        operands = _operands(start, region.steps[0])
        primitive = region.steps[0].primitive
        op, commutative = primitive.alias_of or op, primitive.commutative
    return Reading(
        op, operands, start.attrs, result, start.cut, commutative, frozenset(inner), start.op_name
    )


def _operands(node: TraceNode, step: PrimitiveStep) -> tuple[Any, ...]:
    """The tensors and numbers of an elementwise op, in order."""
    given = {"in": node.inputs, "scalar": node.scalars}
    return tuple([given[kind][i] for kind, i in step.operands])


@final
class TracedValue:
    """A value of a traced function, as a matching function sees it: to be read only.

    Attributes `op`, `inputs` and `attrs` are those of the op that made it; see `MatchedOp` for
    what counts as an operand. `as_op` reads it as the result of an op that is made of others.
    """

    __slots__ = ("_node", "_reading", "_trace")

    def __init__(self, trace: Traced, node: TraceNode, reading: Reading | None = None) -> None:
        self._trace = trace
        self._node = node
        readings = trace.readings(node)
        self._reading = reading or (readings[-1] if readings else None)

    def __repr__(self) -> str:
        return f"TracedValue({self.op}, shape={self._node._shape}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedValue) and other._node is self._node

    def __hash__(self) -> int:
        return id(self._node)

    @property
    def op(self) -> str:
        """The op that made it; `"input"` for an argument, `"constant"` for what is neither.

        Of an op with several names always the same one.
        """
        return self._node.op_name if self._reading is None else self._reading.op

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Its operands: TracedValues, Python numbers, None where one is absent."""
        given = () if self._reading is None else self._reading.operands
        return tuple(
            [TracedValue(self._trace, x) if isinstance(x, TraceNode) else x for x in given]
        )

    @property
    def attrs(self) -> dict[str, Any]:
        """The op's metadata."""
        return {} if self._reading is None else dict(self._reading.attrs)

    @property
    def result(self) -> int:
        """Which of the op's results it is."""
        return 0 if self._reading is None else self._reading.result

    def as_op(self, op: str) -> TracedValue | None:
        """The same value, read as the result of an op; None if it is not."""
        for reading in self._trace.readings(self._node):
            if reading.op == self._trace.canonical(op):
                return TracedValue(self._trace, self._node, reading)
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, on which the program then depends."""
        self._trace.sizes.update(self._node._shape)
        return self._node._shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._node._shape)

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self._node.dtype

    @property
    def device(self) -> Device | None:
        """Where it lies."""
        return self._node.device

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows through it."""
        return self._node.requires_grad
