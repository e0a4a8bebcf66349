"""Tracing: while a context is active, ops become TraceNodes instead of launches.

`apply` looks for a tracer; no op knows about it. A TraceNode stands where a Tensor would: it has
shape, dtype and device, and no data. Whoever asks for data ends the trace: with a `TraceBreak`, or,
if the context can resume, by running what was taken down so far.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, NoReturn, TypeAlias, final

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import FusionError, message
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.node import Node, user_frame
from netcl_core.tape.state import process, thread
from netcl_core.tensors import random_state as randomness
from netcl_core.tensors.tensor import Operand, watch

Frame: TypeAlias = tuple[Any, int] | None

INPUT: Final = "input"
CONSTANT: Final = "constant"
RANDOM: Final = "random_state"


@final
class TraceBreak(BaseException):
    """The trace cannot go on: what stood in the way, and the user's line.

    No Exception, so that a handler in the traced function does not swallow it; where a
    bare `except` or a `return` in `finally` does, the context still knows.
    """

    def __init__(self, op: str, reason: str) -> None:
        super().__init__(f"{op}: {reason}")
        self.op = op
        self.reason = reason
        self.frame = user_frame()
        if thread.tracer is not None:
            thread.tracer.broken = thread.tracer.broken or self


@final
class TraceNode:
    """One value of a traced function, symbolic: the placeholder that a Node holds meanwhile.

    Attributes:
        op_name: The op; `"input"` for an argument, `"constant"` for a tensor that the
            function took from elsewhere, `"random_state"` for a fresh random state.
        inputs: The TraceNodes that the op was given.
        shape, dtype, device: Of the value.
        attrs: The op's metadata.
        call: What computes it (see `apply.Call`).
        pick: Of one of several results, which one it is of the node that is its only input.
        scalars: The Python numbers among its operands, in order.
        is_result: Whether the traced function returned it.
        cut: Whether no gradient flows back through it (`no_grad`, `detach`).
        tensor: The operand with the data: of a constant, and of all after the trace resumed.
        frame: The user's line.
    """

    __slots__ = ("_shape", "attrs", "call", "cut", "device", "dtype", "frame", "inputs",
                 "is_result", "leaf_node", "number", "op_name", "pick", "requires_grad",
                 "scalars", "tensor")  # fmt: skip

    def __init__(
        self,
        op_name: str,
        inputs: Sequence[TraceNode],
        shape: tuple[int, ...],
        dtype: str,
        attrs: dict[str, Any] | None = None,
        device: Device | None = None,
    ) -> None:
        self.op_name = op_name
        self.inputs = list(inputs)
        self._shape = shape
        self.dtype = dtype
        self.attrs = attrs or {}
        self.device = device
        self.call: Any = None
        self.pick: int | None = None
        self.scalars: tuple[Any, ...] = ()
        self.cut = False
        self.is_result = False
        self.tensor: Any = None
        self.frame: Frame = None
        self.number = -1
        self.requires_grad: bool = any(x.requires_grad for x in self.inputs)
        self.leaf_node = None

    def __repr__(self) -> str:
        return f"TraceNode({self.op_name}, shape={self.shape}, dtype={self.dtype})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; while tracing it is noted who looks at the sizes."""
        if thread.tracer is not None:
            thread.tracer.looked_at(self._shape, sys._getframe(1))
        return self._shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def resized(self, sizes: Mapping[int, int]) -> TraceNode:
        """The same node with other sizes, for readers; it reads from the same nodes."""
        shape = tuple([sizes.get(size, size) for size in self._shape])
        made = TraceNode(self.op_name, self.inputs, shape, self.dtype, self.attrs, self.device)
        made.call, made.scalars, made.tensor = self.call, self.scalars, self.tensor
        made.cut, made.is_result, made.frame = self.cut, self.is_result, self.frame
        made.number, made.requires_grad, made.pick = self.number, self.requires_grad, self.pick
        return made

    @property
    def version(self) -> int:
        """Ends the trace: data can be changed in place between the calls."""
        found: int = self._operand("version").value.version
        return found

    def alias(self, shape: tuple[int, ...]) -> Any:
        """What `detach()` asks for: the same value, through which no gradient flows."""
        assert shape == self._shape  # views are operators, which apply_op records
        if thread.tracer is None:
            return self._operand("detach").value.alias(shape)
        return thread.tracer.detach(self)

    def _operand(self, what: str) -> Any:
        """The operand with the data; the trace ends here."""
        if thread.tracer is not None and thread.tracer.has(self):
            reason = f"it needs the data of a value ({self.op_name}) while tracing"
            thread.tracer.interrupt(what, reason)
        if self.tensor is None:  # the value is of another trace, long finished
            self._refuse(what)
        return self.tensor

    def _refuse(self, what: str) -> NoReturn:
        raise FusionError(
            message(
                what,
                f"a value ({self.op_name}) that was kept from a trace of jit_compile",
                "values that the function returns",
                "Return it, or call the function without jit_compile",
            )
        )

    @property
    def grad(self) -> Any:
        """Ends the trace: the gradient of an argument is not part of the call."""
        return self._operand("grad").grad

    @property
    def buffer(self) -> Any:
        """There is none: ends the trace."""
        return self._operand("a read of the data").value.buffer

    def mark_changed(self) -> None:
        """Ends the trace: nothing can be changed in place."""
        self._operand("a change in place").value.mark_changed()

    def copy_(self, source: Any) -> Any:
        """Ends the trace: nothing can be changed in place."""
        return self._operand("copy_").value.copy_(source)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Ends the trace: a leaf made inside the function would be lost."""
        return self._operand("requires_grad_").value.requires_grad_(requires_grad)

    def int_range(self) -> Any:
        """Ends the trace: the range is in the data."""
        return self._operand("int_range").value.int_range()


#: Which of our modules ask for a shape only to infer that of a result.
_INFERENCE: Final = frozenset({"netcl_core.ops.primitive_function", "netcl_core.ops.operator_call"})
#: What Operand answers from a shape without its sizes, or with the shape itself.
_SIZELESS: Final = frozenset({Operand.ndim.fget.__code__, Operand.detach.__code__})  # type: ignore[attr-defined]
#: What hands a shape on to whoever asked.
_THROUGH: Final = frozenset({Operand.shape.fget.__code__, TraceNode.size.fget.__code__})  # type: ignore[attr-defined]


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
    Nodes that the function has, by number.
    """

    def __init__(self, resume: Callable[[TracingContext], None] | None = None) -> None:
        self.active = False
        self.nodes: list[TraceNode] = []
        self.symbols: dict[int, Node] = {}
        self.sizes: set[int] = set()
        self.broken: TraceBreak | None = None
        self._resume = resume
        self._constants: dict[int, TraceNode] = {}
        self._outer: Any = None
        self.grad = True

    def __enter__(self) -> TracingContext:
        if self.active:
            given, remedy = "it is entered already", "Make one for each trace"
            raise FusionError(message("TracingContext", given, "one block at a time", remedy))
        self._outer, thread.tracer = thread.tracer, self
        self.grad = self._recording()
        self.active = True
        return self

    def __exit__(self, *exc: object) -> None:
        if self.active:
            for node in self.nodes:  # a program holds its constants, and no call's arguments
                node.tensor = node.tensor if node.op_name == CONSTANT else None
        thread.tracer = self._outer
        self.active = False

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
        made = self.symbols[self.add(node).number] = Node(node)  # type: ignore[arg-type]
        return made  # its value stands where a Tensor would

    def interrupt(self, op: str, reason: str) -> None:
        """The trace cannot go on: run what was taken down, or raise TraceBreak."""
        broken = TraceBreak(op, reason)
        if self._resume is None:
            raise broken
        thread.tracer = self._outer
        self.active = False
        self._resume(self)

    def looked_at(self, shape: tuple[int, ...], frame: FrameType) -> None:
        """Note who looks at a shape: the function then depends on these sizes."""
        while frame.f_code in _THROUGH and frame.f_back is not None:
            frame = frame.f_back
        infers = frame.f_globals.get("__name__") in _INFERENCE or frame.f_code in _SIZELESS
        if not infers:
            self.sizes.update(shape)

    def input(self, value: Operand) -> Node:
        """A symbolic operand that stands for an argument."""
        node = TraceNode(INPUT, (), value.shape, value.dtype, device=value.device)
        node.requires_grad = value.requires_grad
        node.tensor = value if self._resume is not None else None
        return self._symbol(node)

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

    def record(
        self, call: Any, operands: Sequence[Any], scalars: Sequence[Any], attrs: Any = None
    ) -> Any:
        """Take down a call: a Node, or a list of them if it has several results.

        None: the trace has ended here, and the call is to be run.
        """
        if call.results is None or (self.grad != self._recording() and not self.grad):
            reason = "it is recorded, by enable_grad, in a call under no_grad"
            if call.results is None:
                reason = "its forward is a Python function that the tracer cannot see into"
            self.interrupt(call.name, reason)
            return None
        inputs = [self.node_of(x) for x in operands]
        made = self._noted(call.name, inputs, call.results[0], call.device, attrs)
        made.call = call
        made.scalars = tuple(scalars)
        if len(call.results) == 1:
            return self._symbol(made)
        made.requires_grad = not made.cut and any(x.requires_grad for x in inputs)
        self.add(made)
        return [self._result(made, i, result) for i, result in enumerate(call.results)]

    def _result(self, made: TraceNode, index: int, result: Spec) -> Node:
        """One of several results of a call."""
        node = self._noted(made.op_name, [made], result, made.device)
        node.pick = index
        return self._symbol(node)

    def _noted(
        self, name: str, inputs: Sequence[TraceNode], result: Spec, device: Any, attrs: Any = None
    ) -> TraceNode:
        node = TraceNode(name, inputs, result.shape, result.dtype, attrs, device)
        node.frame = user_frame()
        if not DTYPES[node.dtype].floating:
            node.requires_grad = False
        if self.grad != self._recording():
            node.cut, node.requires_grad = True, False
        return node

    def detach(self, source: TraceNode) -> Node:
        """The same value without a gradient."""
        node = TraceNode("detach", (source,), source._shape, source.dtype, device=source.device)
        node.cut, node.requires_grad = True, False
        node.frame = user_frame()
        return self._symbol(node)


def refused(operands: Sequence[Any]) -> None:
    """Note that an op takes no operands of these shapes: a function that goes on depends on it."""
    if thread.tracer is not None:
        for operand in operands:
            if isinstance(operand, Operand):
                thread.tracer.sizes.update(operand.value.shape)


def _refuse_data() -> None:
    """A traced function cannot depend on data, of its arguments or of other tensors."""
    if thread.tracer is not None:
        reason = "a tensor's data is read or changed by the host while tracing"
        thread.tracer.interrupt("data", reason)


watch(_refuse_data)


def random_state(device: Device) -> Any:
    """A fresh state for one kernel: int64 of shape (2,), the seed and a number never used before.

    >>> nc.random_state(nc.get_device("cpu")).shape
    (2,)

    Kernels that share a state see the same random bits (a gradient and its forward). While a
    function is traced it stands for a fresh one at each call.
    """
    tracer = thread.tracer
    return randomness.random_state(device) if tracer is None else tracer.random_state(device)
