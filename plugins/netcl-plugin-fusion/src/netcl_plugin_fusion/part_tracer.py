"""The tracer of a function that runs in parts: it takes down ops until data are needed, and again.

Most calls repeat what the last one did. What is expected is therefore known beforehand: as long
as the ops are those of a part that was there before, its nodes are used again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import Device, is_grad_enabled, random_state
from netcl_core.autograd import Node, TraceNode
from netcl_core.inspect.captures import captured_after_all, current_capture
from netcl_core.inspect.programs import INPUT, Program, TracedNumber, owner_of
from netcl_core.inspect.recorded import thread, user_frame
from netcl_core.plugins.protocol import registry

#: How many nodes a part has at most.
_MANY: Final = 512


@final
@dataclass(eq=False, slots=True)
class TracedPart:
    """Ops between two places that need data.

    `conditions` are what it depends on besides its nodes and the numbers of its results; `saved`
    says how many launches it saves, `fused` of how many of its `ops` the gradients are part of
    another's kernel, `after` which part came behind it last.
    """

    nodes: Sequence[TraceNode]
    results: list[int]
    conditions: Any
    program: Program
    saved: int
    ops: int
    fused: int
    after: TracedPart | None = None


@final
class PartTracer:
    """Takes down ops as a TracingContext does, and goes on behind what needs data.

    Attributes:
        nodes: What was taken down since data were needed last; `given` are the operands that its
            inputs stand for, in order, `numbers` the Python numbers that its ops were given.
        expected: The nodes that are likely to come; empty once something else has come.
        grad, tape: The mode and the tape under which all of them are recorded; `conditions` are
            what a part depends on besides its nodes.
    """

    goes_on = True

    def __init__(
        self, run: Callable[[PartTracer], TracedPart | None], first: TracedPart | None
    ) -> None:
        self._run = run
        self._next = first
        self._tape = thread.tape
        self.broken: Any = None
        self.sizes: set[int] = set()  # as a TracingContext has them; nothing depends on them here

    def begin(self) -> None:
        """Take down from nothing."""
        self.nodes: list[TraceNode] = []
        self.given: list[Any] = []
        self.numbers: list[Any] = []
        self.casts: dict[Any, Any] = {}
        self.grad, self.tape = is_grad_enabled(), thread.tape
        self.records = self.grad and (self.tape is None or self.tape.records)
        self.conditions = self.grad, self.records, thread.chosen, registry.version
        part = self._next
        known = part is not None and part.conditions == self.conditions
        self.expected: Sequence[TraceNode] = part.nodes if part and known else ()
        self._symbols: list[tuple[int, weakref.ref[Node]]] = []
        self._viewed: set[TraceNode] = set()
        self._known: dict[int, TraceNode] = {}
        self._capture = current_capture()

    def symbols(self) -> list[tuple[TraceNode, Node]]:
        """What the function still has, with its nodes."""
        pairs = [(self.nodes[number], symbol()) for number, symbol in self._symbols]
        return [(node, symbol) for node, symbol in pairs if symbol is not None]

    # -- where data are needed ---------------------------------------------------------

    def settle(self, op: str, reason: str) -> None:
        """Run what was taken down, and begin anew."""
        if self.nodes:
            with self.paused(), captured_after_all(self._capture):
                self._next = self._run(self)
        self.begin()

    def interrupt(self, op: str, reason: str) -> None:
        """Run what was taken down; the rest of the call is not traced."""
        self.settle(op, reason)
        thread.tracer = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A block that is not traced."""
        thread.tracer = None
        try:
            yield
        finally:
            thread.tracer = self

    # -- what is taken down ------------------------------------------------------------

    def has(self, node: TraceNode) -> bool:
        """Whether a node was taken down and has not run."""
        return node.number < len(self.nodes) and self.nodes[node.number] is node

    def symbol_of(self, node: TraceNode) -> Node:
        """What the function has for a node, or had."""
        symbol = next((x for other, x in self.symbols() if other is node), None)
        return self._symbol(node) if symbol is None else symbol

    def _symbol(self, node: TraceNode) -> Node:
        symbol = Node(node, node.op_name)  # type: ignore[arg-type]  # it stands where a Tensor would
        self._symbols.append((node.number, weakref.ref(symbol)))
        return symbol

    def may_replace(self, node: TraceNode) -> bool:
        """Whether a change in place makes another value of this one; see TracingContext."""
        owner = owner_of(node)
        if not owner.inputs or not self.has(node):
            return False
        if owner not in self._viewed:
            return True
        return all(other is node or owner_of(other) is not owner for other, _ in self.symbols())

    def replaces(self, symbol: Any, new: Any, first: int) -> bool:
        """Let a symbol be a new value from now on; see TracingContext."""
        node = new.value
        if type(node) is not TraceNode or type(symbol.value) is not TraceNode:
            return False
        if node.number < first or not self.has(node) or not self.has(symbol.value):
            return False
        symbols = self._symbols
        place = next(i for i in range(len(symbols) - 1, -1, -1) if symbols[i][1]() is symbol)
        symbols[place] = node.number, symbols[place][1]
        symbol.value, symbol.op_name = node, node.op_name
        return True

    def _expects(self, call: Any, inputs: list[TraceNode]) -> TraceNode | None:
        """The node that is likely to come, if it is of this call."""
        place, expected = len(self.nodes), self.expected
        if place < len(expected):
            node = expected[place]
            if node.call is call and node.inputs == inputs:
                return node
        self.expected = ()
        return None

    def _add(self, node: TraceNode) -> TraceNode:
        node.number = len(self.nodes)
        self.nodes.append(node)
        return node

    def node_of(self, operand: Any) -> TraceNode:
        """The node of an operand; a tensor is an input."""
        value = operand.value
        if type(value) is TraceNode:
            if not self.has(value):
                value._refuse("an op")
            return value
        known = self._known.get(id(operand))
        if known is None:
            node = self._expects(None, [])
            facts = value.shape, value.dtype, value.device, operand.requires_grad
            if node is None or facts_of(node) != facts:
                self.expected = ()
                node = TraceNode(INPUT, (), facts[0], facts[1], device=facts[2])
                node.requires_grad = facts[3]
            known = self._known[id(operand)] = self._add(node)
            self.given.append(operand)
        return known

    def record(
        self, call: Any, operands: Sequence[Any], scalars: Sequence[Any], attrs: Any = None
    ) -> Any:
        """Take down a call; None: it is to be run, not traced."""
        if (
            self.grad != is_grad_enabled()
            or thread.tape is not self.tape
            or len(self.nodes) >= _MANY
            or call.results is None
        ):
            self.settle(call.name, "what was taken down has to run before it")
            if call.results is None or self.tape is not self._tape:
                return None  # a tape that the function has entered keeps each op
        if call.view and type(operands[0].value) is not TraceNode:
            return None
        inputs = [self.node_of(x) for x in operands]
        node = self._expects(call, inputs)
        if node is None or not self._repeats(node, scalars):
            if getattr(call, "operator", None) is not None and call.operator.check is not None:
                self.settle(call.name, "it looks at data, and may raise here")
                return None
            self.expected = ()
            spec = call.results[0]
            node = TraceNode(call.name, inputs, spec.shape, spec.dtype, device=call.device)
            node.call, node.frame = call, user_frame()
            node.scalars = tuple(map(self._followed, scalars))
            node.requires_grad = self._flows(node)[0]
        node.number = len(self.nodes)
        self.nodes.append(node)
        if call.view:
            self._viewed.add(owner_of(node))
        if len(call.results) == 1:
            return self._symbol(node)
        return [self._result(node, i) for i in range(len(call.results))]

    def _flows(self, node: TraceNode) -> tuple[bool, ...]:
        """Of each result of a call, whether a gradient flows through it."""
        needs = tuple([x.requires_grad for x in node.inputs])
        if not self.records or True not in needs:
            return (False,) * len(node.call.results)
        flows: tuple[bool, ...] = node.call.flows(needs)
        return flows

    def _followed(self, scalar: Any) -> Any:
        """A number as an argument of the program: another value needs no other one."""
        if type(scalar) not in (int, float):
            return scalar
        self.numbers.append(scalar)
        return TracedNumber(scalar, len(self.numbers) - 1)

    def _repeats(self, node: TraceNode, scalars: Sequence[Any]) -> bool:
        """Whether an expected node has such scalars; then those that are numbers are noted."""
        if not scalars:
            return not node.scalars
        if len(scalars) != len(node.scalars):
            return False
        numbers = []
        for x, known in zip(scalars, node.scalars, strict=True):
            if type(known) is TracedNumber:
                if type(x) is not known.type:
                    return False
                numbers.append(x)
            elif type(x) is not type(known) or x != known:
                return False
        self.numbers += numbers
        return True

    def _result(self, maker: TraceNode, index: int) -> Node:
        """One of several results of a call."""
        spec = maker.call.results[index]
        node = self._expects(None, [maker])
        if node is None or node.pick != index:
            node = TraceNode(maker.op_name, [maker], spec.shape, spec.dtype, device=maker.device)
            node.pick, node.frame = index, maker.frame
            node.requires_grad = self._flows(maker)[index]
        return self._symbol(self._add(node))

    def detach(self, source: TraceNode) -> Node:
        """The same value without a gradient."""
        node = self._expects(None, [source])
        if node is None or node.op_name != "detach":
            node = TraceNode("detach", (source,), source._shape, source.dtype, device=source.device)
            node.cut, node.requires_grad = True, False
            node.frame = user_frame()
        self._viewed.add(owner_of(source))
        return self._symbol(self._add(node))

    def random_state(self, device: Device) -> Any:
        """A fresh state, which is an input."""
        with self.paused():
            return random_state(device)

    def overwrite(self, target: Any, node: TraceNode) -> bool:
        """Whether a write into a tensor from outside is taken down: it is done at once."""
        return False


def facts_of(node: TraceNode) -> tuple[Any, ...]:
    """What a part depends on of an input."""
    return node._shape, node.dtype, node.device, node.requires_grad
