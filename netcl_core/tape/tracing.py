"""Tracing: while a context is active, ops become TraceNodes instead of launches.

`apply_op` and the elementwise ops look for a tracer at their one entrance; no op
knows about it. A TraceNode stands where a Tensor would: it has shape, dtype and
device, and no data. Whoever asks for data ends the trace (`TraceBreak`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeAlias, final

from netcl_core.device.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import FusionError, message
from netcl_core.tape import frames
from netcl_core.tape.node import Node
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
        self.frame = frames.user_frame()
        if thread.tracer is not None:
            thread.tracer.broken = thread.tracer.broken or self


@final
class TraceNode:
    """One value of a traced function, symbolic: the placeholder that a Node holds meanwhile.

    Attributes:
        op_name: The op; `"input"` for an argument, `"constant"` for a tensor that the
            function took from elsewhere, `"random_state"` for a fresh random state.
        inputs: The TraceNodes that the op was given (None: an absent operand).
        shape, dtype, device: Of the value.
        attrs: The op's metadata.
        call: What computes it: the forward function that `apply_op` was given.
        scalars: The Python numbers among its operands, in order.
        is_result: Whether the traced function returned it.
        cut: Whether no gradient flows back through it (`no_grad`, `detach`).
        tensor: Of a constant, its operand.
        frame: The user's line.
    """

    __slots__ = ("attrs", "call", "cut", "device", "dtype", "frame", "inputs", "is_result",
                 "leaf_node", "number", "op_name", "requires_grad", "scalars", "shape",
                 "tensor")  # fmt: skip

    def __init__(
        self,
        op_name: str,
        inputs: Sequence[TraceNode | None],
        shape: tuple[int, ...],
        dtype: str,
        attrs: dict[str, Any] | None = None,
        device: Device | None = None,
    ) -> None:
        self.op_name = op_name
        self.inputs = list(inputs)
        self.shape = shape
        self.dtype = dtype
        self.attrs = attrs or {}
        self.device = device
        self.call: Any = None
        self.scalars: tuple[Any, ...] = ()
        self.cut = False
        self.is_result = False
        self.tensor: Any = None
        self.frame: Frame = None
        self.number = -1
        self.requires_grad: bool = any(x is not None and x.requires_grad for x in self.inputs)
        self.leaf_node = None

    def __repr__(self) -> str:
        return f"TraceNode({self.op_name}, shape={self.shape}, dtype={self.dtype})"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def version(self) -> int:
        """Of data that cannot change: 0."""
        return 0

    def alias(self, shape: tuple[int, ...]) -> Any:
        """What `detach()` asks for: the same value, through which no gradient flows."""
        assert shape == self.shape  # views are operators, which apply_op records
        if thread.tracer is None:
            self._refuse("detach")
        return thread.tracer.detach(self)

    @property
    def grad(self) -> NoReturn:
        """Ends the trace: the gradient of an argument is not part of the call."""
        self._refuse("grad")

    def _refuse(self, what: str) -> NoReturn:
        if thread.tracer is None:
            raise FusionError(
                message(
                    what,
                    f"a value ({self.op_name}) that was kept from a trace of jit_compile",
                    "values that the function returns",
                    "Return it, or call the function without jit_compile",
                )
            )
        raise TraceBreak(what, f"it needs the data of a value ({self.op_name}) while tracing")

    @property
    def buffer(self) -> NoReturn:
        """There is none: ends the trace."""
        self._refuse("a read of the data")

    def mark_changed(self) -> None:
        """Ends the trace: nothing can be changed in place."""
        self._refuse("a change in place")

    def requires_grad_(self, requires_grad: bool = True) -> NoReturn:
        """Ends the trace: a leaf made inside the function would be lost."""
        self._refuse("requires_grad_")

    def int_range(self) -> NoReturn:
        """Ends the trace: the range is in the data."""
        self._refuse("int_range")


@final
class TracingContext:
    """Takes down what a function does: `with TracingContext() as context: ...`.

    `nodes` are the TraceNodes in order; `active` says whether the block is running;
    `broken` is the first TraceBreak, also if the function swallowed it.
    """

    def __init__(self) -> None:
        self.active = False
        self.nodes: list[TraceNode] = []
        self.broken: TraceBreak | None = None
        self._constants: dict[int, TraceNode] = {}
        self._outer: Any = None
        self._grad = True

    def __enter__(self) -> TracingContext:
        if self.active:
            given, remedy = "it is entered already", "Make one for each trace"
            raise FusionError(message("TracingContext", given, "one block at a time", remedy))
        self._outer, thread.tracer = thread.tracer, self
        self._grad = self._recording()
        self.active = True
        return self

    def __exit__(self, *exc: object) -> None:
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

    def input(self, value: Operand) -> Node:
        """A symbolic operand that stands for an argument."""
        node = TraceNode(INPUT, (), value.shape, value.dtype, device=value.device)
        node.requires_grad = value.requires_grad
        return Node(self.add(node))  # type: ignore[arg-type]  # stands where a Tensor would

    def random_state(self, device: Device) -> Node:
        """A symbolic random state: a fresh one at each call."""
        return Node(self.add(TraceNode(RANDOM, (), (2,), "int64", device=device)))  # type: ignore[arg-type]

    def node_of(self, operand: Any) -> TraceNode | None:
        """The TraceNode of an operand; a tensor from outside the function is a constant."""
        if operand is None:
            return None
        value = operand.value
        if isinstance(value, TraceNode):
            return value
        known = self._constants.get(id(operand))
        if known is None:
            known = TraceNode(CONSTANT, (), value.shape, value.dtype, device=value.device)
            known.tensor = operand
            known.requires_grad = operand.requires_grad
            self._constants[id(operand)] = self.add(known)
        return known

    def record(
        self,
        call: Any,
        operands: Sequence[Any],
        scalars: Sequence[Any],
        name: str,
        attrs: dict[str, Any] | None,
    ) -> Node:
        """Take down an op; `call` needs `result`, the Spec of what it would return."""
        result = getattr(call, "result", None)
        if result is None:
            raise TraceBreak(
                name, "its forward is a Python function that the tracer cannot see into"
            )
        node = TraceNode(
            name,
            [self.node_of(x) for x in operands],
            result.shape,
            result.dtype,
            attrs,
            call.device,
        )
        node.call = call
        node.scalars = tuple(scalars)
        node.frame = frames.user_frame()
        if not DTYPES[node.dtype].floating:
            node.requires_grad = False
        if self._grad != self._recording():
            if not self._grad:
                raise TraceBreak(name, "it is recorded, by enable_grad, in a call under no_grad")
            node.cut, node.requires_grad = True, False
        return Node(self.add(node))  # type: ignore[arg-type]

    def detach(self, source: TraceNode) -> Node:
        """The same value without a gradient."""
        node = TraceNode("detach", (source,), source.shape, source.dtype, device=source.device)
        node.cut, node.requires_grad = True, False
        node.frame = frames.user_frame()
        return Node(self.add(node))  # type: ignore[arg-type]


def int_range(operand: Operand) -> tuple[int, int] | None:
    """The smallest and largest element of a non-empty integer operand, as far as they may matter.

    None while a function is traced: its program is for any values.
    """
    return operand.value.int_range() if thread.tracer is None else None


def _refuse_data() -> None:
    """A traced function cannot depend on data, of its arguments or of other tensors."""
    if thread.tracer is not None:
        raise TraceBreak("data", "a tensor's data is read or changed by the host while tracing")


watch(_refuse_data)


def random_state(device: Device) -> Any:
    """A fresh state for one kernel: int64 of shape (2,), the seed and a number never used before.

    Kernels that share a state see the same random bits (a gradient and its forward). While a
    function is traced it stands for a fresh one at each call.
    """
    tracer = thread.tracer
    return randomness.random_state(device) if tracer is None else tracer.random_state(device)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *rest: function(self.read(), *rest)


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflected form; beside a tensor, the tensor's own operator takes over."""

    def plain(self: TracedNumber, other: Any) -> Any:
        return NotImplemented if isinstance(other, Operand) else function(self.read(), other)

    def reflected(self: TracedNumber, other: Any) -> Any:
        return NotImplemented if isinstance(other, Operand) else function(other, self.read())

    return plain, reflected


@final
class TracedNumber:
    """A Python number among the arguments of a traced function.

    An op takes it as an argument of the kernel, so that a new value traces nothing.
    Whatever else the function does with it (a branch, arithmetic, `range`) reads the
    value, and from then on the value is part of the key.
    """

    __slots__ = ("_value", "index", "was_read")

    def __init__(self, value: float, index: int) -> None:
        self._value = value
        self.index = index
        self.was_read = False

    def read(self) -> Any:
        """The value, which the function then depends on."""
        self.was_read = True
        return self._value

    @property  # type: ignore[misc]  # read only
    def __class__(self) -> Any:
        """That of the number, for `isinstance`."""
        return type(self._value)

    @property
    def type(self) -> type:
        """The number's type."""
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        getattr(type(self._value), name)  # whether there is one says nothing of the value
        return getattr(self.read(), name)

    __hash__ = _plain(hash)
    __bool__ = _plain(bool)
    __int__, __float__, __index__ = _plain(int), _plain(float), _plain(operator.index)
    __repr__, __str__, __format__ = _plain(repr), _plain(str), _plain(format)
    __eq__, __ne__ = _binary(operator.eq)[0], _binary(operator.ne)[0]
    __lt__, __gt__ = _binary(operator.lt)[0], _binary(operator.gt)[0]
    __le__, __ge__ = _binary(operator.le)[0], _binary(operator.ge)[0]
    __neg__, __pos__, __abs__ = _plain(operator.neg), _plain(operator.pos), _plain(abs)
    __round__, __trunc__ = _plain(round), _plain(math.trunc)
    __floor__, __ceil__ = _plain(math.floor), _plain(math.ceil)
    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow)
    __and__, __rand__ = _binary(operator.and_)
    __or__, __ror__ = _binary(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift)
    __divmod__, __rdivmod__ = _binary(divmod)
    __invert__ = _plain(operator.invert)
