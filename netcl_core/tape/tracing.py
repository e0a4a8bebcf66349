"""Tracing: while a context is active, ops become TraceNodes instead of launches.

`apply` looks for a tracer; no op knows about it. Whoever asks for data ends the trace: with a
`TraceBreak`, or, if the context can resume, by running what was taken down so far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final, TypeVar, cast, final
from weakref import WeakValueDictionary

from netcl_core.dtypes import DTYPES
from netcl_core.errors import FusionError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.recording import captured_after_all, current_capture
from netcl_core.tape.node import Node, user_frame
from netcl_core.tape.state import process, thread
from netcl_core.tape.trace_node import CONSTANT, INPUT, RANDOM, TraceBreak, TraceNode
from netcl_core.tensors import random_state as randomness
from netcl_core.tensors.operand import watch
from netcl_core.tensors.tensor import Tensor

_Function = TypeVar("_Function", bound=Callable[..., Any])
#: Which of our modules ask for a shape only to infer that of a result.
_INFERENCE: Final = frozenset({"netcl_core.ops.composition", "netcl_core.ops.public_function"})
#: What Tensor answers from a shape without its sizes, or with the shape itself.
_SIZELESS: Final = frozenset({Tensor.ndim.fget.__code__, Tensor.detach.__code__})  # type: ignore[attr-defined]
#: What hands a shape on to whoever asked.
_THROUGH: Final = frozenset({TraceNode.size.fget.__code__})  # type: ignore[attr-defined]


@final
class TracingContext:
    """Takes down what a function does: `with TracingContext() as context: ...`.

    >>> with ag.TracingContext() as context:
    ...     y = ag.exp(nc.tensor([1.0])) * 2
    >>> [node.op_name for node in context.nodes]
    ['constant', 'exp', 'mul']

    `nodes` are the TraceNodes in order; `active` says whether the block is running;
    `broken` is the first TraceBreak, also if the function swallowed it. `sizes` are those
    that the function looked at. With `resume` the function goes on where the trace cannot:
    it is called with the context and gives each symbol its value; `symbols` are the
    Nodes that the function still has, by number; `casts` what an amp policy has cast, by what it
    was; `spans` the calls of ops that are made of others (see `spans.Span`); `writes` the tensors
    from outside that the function overwrites, each with its new value.
    """

    #: Whether another trace begins behind what ends this one (see `jit.parts`).
    goes_on = False

    def __init__(self, resume: Callable[[TracingContext], None] | None = None) -> None:
        self.active = False
        self.nodes: list[TraceNode] = []
        self.symbols: MutableMapping[int, Node] = WeakValueDictionary()
        self.spans: list[Any] = []
        self.writes: dict[int, tuple[Any, TraceNode]] = {}
        self.sizes: set[int] = set()
        self.broken: TraceBreak | None = None
        self.casts: dict[Any, Any] = {}
        self._resume = resume
        self._constants: dict[int, TraceNode] = {}
        self._layouts: dict[int, Geometry | None] = {}
        self.asked_layouts = False
        self._outer: Any = None
        self._capture: Any = None
        self.grad = True

    def __enter__(self) -> TracingContext:
        if self.active:
            given, remedy = "it is entered already", "Make one for each trace"
            raise FusionError(message("TracingContext", given, "one block at a time", remedy))
        self._outer, thread.tracer = thread.tracer, self
        self._capture = current_capture()
        self.grad = self._recording()
        self.active = True
        return self

    def __exit__(self, *exc: object) -> None:
        if self.active:
            for node in self.nodes:  # a program holds its constants, and no call's arguments
                node.tensor = node.tensor if node.op_name == CONSTANT else None
        thread.tracer = self._outer
        self.active = False

    @property
    def cuts(self) -> bool:
        """Whether what is recorded now passes no gradient on, although the trace began with one."""
        return self.grad != self._recording()

    @staticmethod
    def _recording() -> bool:
        return process.grad if thread.grad is None else thread.grad

    def add(self, node: TraceNode) -> TraceNode:
        """Append a node."""
        node.number = len(self.nodes)
        self.nodes.append(node)
        return node

    def has(self, node: TraceNode) -> bool:
        """Whether a node is of this trace, and not of an earlier one."""
        return node.number < len(self.nodes) and self.nodes[node.number] is node

    def _symbol(self, node: TraceNode) -> Node:
        """What the function gets for a new node."""
        symbol = self.symbols[self.add(node).number] = Node(node)  # type: ignore[arg-type]
        return symbol  # its value stands where a Tensor would

    def symbol_of(self, node: TraceNode) -> Node:
        """What the function has for a node, or had."""
        symbol = self.symbols.get(node.number)
        if symbol is None:
            symbol = self.symbols[node.number] = Node(node)  # type: ignore[arg-type]
        return symbol

    def interrupt(self, op: str, reason: str) -> None:
        """The trace cannot go on: run what was taken down, or raise TraceBreak."""
        broken = TraceBreak(op, reason)
        if self._resume is None:
            raise broken
        thread.tracer = self._outer
        self.active = False
        with captured_after_all(self._capture):
            self._resume(self)

    #: The same, for what a trace that goes on can go on behind.
    settle = interrupt

    def looked_at(self, shape: tuple[int, ...], frame: FrameType) -> None:
        """Note who looks at a shape: the function then depends on these sizes."""
        while frame.f_code in _THROUGH and frame.f_back is not None:
            frame = frame.f_back
        infers = frame.f_globals.get("__name__") in _INFERENCE or frame.f_code in _SIZELESS
        if not infers:
            self.sizes.update(shape)

    def may_replace(self, node: TraceNode) -> bool:
        """Whether a change in place of a value makes another value of it and concerns no other.

        Its memory must be that of an op's result, and no other value that the function still has
        may lie there.
        """
        owner = owner_of(node)
        values: list[Any] = [x.value for x in self.symbols.values()]
        others = [value for value in values if value is not node]
        return bool(owner.inputs) and not self.cuts and owner not in map(owner_of, others)

    def replaces(self, symbol: Any, new: Any, first: int) -> bool:
        """Let a symbol be a new value from now on; False: its trace has ended, or it is not new.

        `first` is the number of the first node that may be the new value's.
        """
        node = new.value
        if type(node) is not TraceNode or node.number < first or not self.has(node):
            return False
        if not self.active:
            return False
        self.symbols.pop(symbol.value.number, None)
        symbol.value = node
        self.symbols[node.number] = symbol
        return True

    def input(self, value: Tensor | TraceNode) -> Node:
        """A symbolic operand that stands for an argument, or for a value of another trace."""
        node = TraceNode(INPUT, (), value.shape, value.dtype, device=value.device)
        node.requires_grad = value.requires_grad
        node.tensor = value if self._resume is not None else None
        self._layouts[len(self.nodes)] = value.geometry and value.geometry.layout
        return self._symbol(node)

    def layout_of(self, node: TraceNode) -> Geometry | None:
        """Where the elements of an argument lie, on which the function then depends."""
        if node.op_name != INPUT:
            geometry: Geometry | None = node.tensor and node.tensor.value.geometry
            return geometry
        self.asked_layouts = True
        return self._layouts.get(node.number)

    def random_state(self, device: Device) -> Node:
        """A symbolic random state: a fresh one at each call."""
        return self._symbol(TraceNode(RANDOM, (), (2,), "int64", device=device))

    def node_of(self, operand: Any) -> TraceNode:
        """The TraceNode of an operand; a tensor from outside the function is a constant."""
        value = operand.value
        if isinstance(value, TraceNode):
            if not self.has(value):
                value._refuse("an op")
            return value
        known = self._constants.get(id(operand))
        if known is None:
            known = TraceNode(CONSTANT, (), value.shape, value.dtype, device=value.device)
            known.tensor = operand
            known.requires_grad = operand.requires_grad
            self._constants[id(operand)] = self.add(known)
        return known

    def overwrite(self, target: Any, node: TraceNode) -> bool:
        """Note a tensor's new value, which ops that read the tensor from now on are given.

        False: the trace has ended here, since views of the tensor would have its old value.
        """
        leaves = [x for x in self._constants.values() if self._lies_in(x, target)]
        viewed = any(x.call is not None and x.call.view and x.inputs[0] in leaves
                     for x in self.nodes)  # fmt: skip
        if viewed or target.is_alias or any(x.tensor.value is not target for x in leaves):
            self.interrupt("copy_", "a tensor is overwritten of which there is a view")
            return False
        self._constants[id(target)] = node
        self.writes[id(target)] = target, node
        return True

    @staticmethod
    def _lies_in(node: TraceNode, target: Any) -> bool:
        """Whether a constant is a tensor, or a view of it."""
        return node.op_name == CONSTANT and node.tensor.value.memory is target.memory

    def overwritten(self, operand: Any) -> bool:
        """Whether an operand is a tensor that the function has overwritten, or a view of one."""
        value = operand.value
        if not self.writes or isinstance(value, TraceNode):
            return False
        return any(target.memory is value.memory for target, _ in self.writes.values())

    def known(self, operand: Any) -> TraceNode | None:
        """The node of an operand that the trace has met, itself or as a constant; else None."""
        value = operand.value if isinstance(operand, Tensor) else None
        return value if isinstance(value, TraceNode) else self._constants.get(id(operand))

    def record(
        self, call: Any, operands: Sequence[Any], scalars: Sequence[Any], attrs: Any = None
    ) -> Any:
        """Take down a call: a Node, or a list of them if it has several results.

        None: the trace has ended here, and the call is to be run.
        """
        if call.results is None or (self.cuts and not self.grad):
            reason = "it is recorded, by enable_grad, in a call under no_grad"
            if call.results is None:
                reason = "its forward is a Python function that the tracer cannot see into"
            self.interrupt(call.name, reason)
            return None
        if any(self.overwritten(x) and id(x) not in self.writes for x in operands):
            self.interrupt(call.name, "it reads a view of a tensor that was overwritten")
            return None
        inputs = [self.node_of(x) for x in operands]
        node = self._noted(call.name, inputs, call.results[0], call.device, attrs)
        node.call = call
        node.scalars = tuple(scalars)
        if len(call.results) == 1:
            return self._symbol(node)
        node.requires_grad = not node.cut and any(x.requires_grad for x in inputs)
        self.add(node)
        return [self._result(node, i, result) for i, result in enumerate(call.results)]

    def _result(self, maker: TraceNode, index: int, result: Spec) -> Node:
        """One of several results of a call."""
        node = self._noted(maker.op_name, [maker], result, maker.device)
        node.pick = index
        return self._symbol(node)

    def _noted(
        self, name: str, inputs: Sequence[TraceNode], result: Spec, device: Any, attrs: Any = None
    ) -> TraceNode:
        node = TraceNode(name, inputs, result.shape, result.dtype, attrs, device)
        node.frame = user_frame()
        if not DTYPES[node.dtype].floating:
            node.requires_grad = False
        if self.cuts:
            node.cut, node.requires_grad = True, False
        return node

    def detach(self, source: TraceNode) -> Node:
        """The same value without a gradient."""
        node = TraceNode("detach", (source,), source._shape, source.dtype, device=source.device)
        node.cut, node.requires_grad = True, False
        node.frame = user_frame()
        return self._symbol(node)


def owner_of(node: TraceNode) -> TraceNode:
    """The node whose memory a node may lie in: that of which it is a view, else itself."""
    while node.inputs:
        maker = node if node.pick is None else node.inputs[0]
        if maker.call is not None and not maker.call.view:
            break
        node = maker.inputs[0]
    return node


def depends_on_sizes() -> bool:
    """Whether a trace is on that has to know who looks at sizes."""
    return thread.tracer is not None and not thread.tracer.goes_on


def sizes_of(x: Any) -> Any:
    """The shape of an operand, which a trace does not depend on for that."""
    value = x.value
    return value._shape if type(value) is TraceNode else value.shape


def trace_of_change(x: Any) -> Any:
    """The trace in which a change of x in place makes another value of it; None: x has data."""
    tracer = thread.tracer
    if tracer is None or type(x.value) is not TraceNode or not tracer.may_replace(x.value):
        return None
    return tracer


def overwritten_at_each_call(target: Any, source: Any) -> bool:
    """Take down that a traced function overwrites a tensor from outside with what it computes."""
    tracer = thread.tracer
    if tracer is None or tracer.goes_on or not isinstance(source, Tensor):
        return False
    values: list[Any] = [x.value for x in (target, source)]
    inside = [isinstance(x, TraceNode) and tracer.has(x) for x in values]
    if inside != [False, True] or target.shape != values[1]._shape:
        return False
    target.overwrite(source)
    return True


def refused(operands: Sequence[Any]) -> None:
    """Note that an op takes no operands of these shapes: a function that goes on depends on it."""
    if thread.tracer is not None:
        for operand in operands:
            if isinstance(operand, Tensor):
                thread.tracer.sizes.update(operand.value.shape)


def _refuse_data() -> None:
    """A traced function cannot depend on data, of its arguments or of other tensors."""
    if thread.tracer is not None:
        reason = "a tensor's data is read or changed by the host while tracing"
        thread.tracer.settle("data", reason)


watch(_refuse_data)


def apart(function: _Function) -> _Function:
    """A function that a trace which goes on does not see into: it has data, and is run at once."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = thread.tracer
        if tracer is None or not tracer.goes_on:
            return function(*args, **kwargs)
        tracer.settle(function.__name__, "it needs data")
        with tracer.paused():
            return function(*args, **kwargs)

    return cast(_Function, call)


def random_state(device: Device, generator: Any = None) -> Any:
    """A fresh state for one kernel: int64 of shape (2,), the seed and a number never used before.

    >>> nc.random_state(nc.get_device("numpy")).shape
    (2,)

    Kernels that share a state see the same random bits (a gradient and its forward). While a
    function is traced it stands for a fresh one at each call. `generator` is an `nc.Generator`, by
    default the process's.
    """
    if generator is not None:
        return _drawn_by(generator, device)
    tracer = thread.tracer
    return randomness.random_state(device) if tracer is None else tracer.random_state(device)


@apart
def _drawn_by(generator: Any, device: Device) -> Tensor:
    if thread.tracer is not None:
        thread.tracer.interrupt("generator=", "it draws anew at each call")
    return randomness.random_state(device, generator)


# -- spans: which nodes one call of an op that is made of others has made ------------------


@final
@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """A call of an op that is made of others, in a trace: those are the nodes.

    Attributes:
        op: The op's name.
        operands: Its tensors, in the order of its parameters; None for an absent one.
        attrs: All its other arguments, by name.
        first: The number of the first node that may be its own.
        results: Its results.
        cut: Whether no gradient flows back through it.
    """

    op: str
    operands: tuple[TraceNode | None, ...]
    attrs: Mapping[str, Any]
    first: int
    results: tuple[TraceNode, ...]
    cut: bool


def note_span(
    context: TracingContext,
    op: str,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    first: int,
    result: Any,
) -> None:
    """Note a call in its trace, unless it takes host data or gives what is no tensor."""
    known = [None if x is None else context.known(x) for x in operands]
    if any(x is not None and node is None for x, node in zip(operands, known, strict=True)):
        return
    values = result if isinstance(result, tuple) else (result,)
    results = tuple([node for node in map(context.known, values) if node is not None])
    if len(results) == len(values):
        context.spans.append(Span(op, tuple(known), attrs, first, results, context.cuts))
