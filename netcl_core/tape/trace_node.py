"""The values of a trace: a TraceNode stands where a Tensor would, and TraceBreak ends the trace.

A TraceNode has shape, dtype and device, and no data. Whoever asks it for data ends the trace
(see `tracing`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, final

from netcl_core.errors import FusionError, message
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Geometry
from netcl_core.tape.frames import describe_frame
from netcl_core.tape.node import user_frame
from netcl_core.tape.state import thread

Frame: TypeAlias = tuple[Any, int] | None

INPUT: Final = "input"
CONSTANT: Final = "constant"
RANDOM: Final = "random_state"
#: Attributes of a Tensor that are about its memory.
_OF_DATA: Final = frozenset(
    {"_storage", "duplicate", "is_alias", "memory", "note_arrival", "storage", "viewed", "whole"}
)


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

    @property
    def told(self) -> str:
        """What, where and why, for readers."""
        return f"{self.op} at {describe_frame(self.frame)}: {self.reason}"


@final
class TraceNode:
    """One value of a traced function, symbolic: the placeholder that a Node holds meanwhile.

    >>> x = ag.TraceNode("input", [], (3,), "float32")
    >>> y = ag.TraceNode("relu", [x], (3,), "float32")
    >>> y.op_name, y.shape, y.inputs[0].op_name
    ('relu', (3,), 'input')

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
        replaced: What a training pattern put it in the place of, for readers; None: nothing.
        tensor: The operand with the data: of a constant, and of all after the trace resumed.
        frame: The user's line.
        geometry: Where the elements of a view will lie, if that is known before it is there.
    """

    __slots__ = ("_shape", "attrs", "call", "cut", "device", "dtype", "frame", "geometry", "inputs",
                 "is_result", "leaf_node", "number", "op_name", "pick", "replaced",
                 "requires_grad", "scalars", "tensor")  # fmt: skip

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
        self.replaced: Any = None
        self.is_result = False
        self.tensor: Any = None
        self.frame: Frame = None
        self.number = -1
        self.requires_grad: bool = any(x.requires_grad for x in self.inputs)
        self.leaf_node = None
        self.geometry: Geometry | None = None

    def __repr__(self) -> str:
        return f"TraceNode({self.op_name}, shape={self.shape}, dtype={self.dtype})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; while tracing it is noted who looks at the sizes."""
        tracer = thread.tracer
        if tracer is not None and not tracer.goes_on:
            tracer.looked_at(self._shape, sys._getframe(1))
        return self._shape

    @property
    def pending(self) -> bool:
        """Whether an op computes it, which has not run."""
        return bool(self.inputs)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def resized(self, sizes: Mapping[int, int]) -> TraceNode:
        """The same node with other sizes, for readers; it reads from the same nodes."""
        shape = tuple([sizes.get(size, size) for size in self._shape])
        node = TraceNode(self.op_name, self.inputs, shape, self.dtype, self.attrs, self.device)
        node.call, node.scalars, node.tensor = self.call, self.scalars, self.tensor
        node.cut, node.is_result, node.frame = self.cut, self.is_result, self.frame
        node.number, node.requires_grad, node.pick = self.number, self.requires_grad, self.pick
        node.replaced = self.replaced
        return node

    @property
    def version(self) -> int:
        """Ends the trace: data can be changed in place between the calls."""
        version: int = self._operand("version").value.version
        return version

    def alias(self, shape: tuple[int, ...]) -> Any:
        """What `detach()` asks for: the same value, through which no gradient flows."""
        assert shape == self._shape  # views are operators, which apply_op records
        if thread.tracer is None:
            return self._operand("detach").value.alias(shape)
        return thread.tracer.detach(self)

    def __getattr__(self, name: str) -> Any:
        """What else a Tensor has lies in its data: the trace ends here."""
        if name in _OF_DATA:
            return getattr(self._operand(name).value, name)
        raise AttributeError(f"a value of a trace has no attribute {name!r}", name=name, obj=self)

    def _operand(self, what: str) -> Any:
        """The operand with the data; the trace ends here."""
        tracer = thread.tracer
        if tracer is not None and tracer.has(self):
            reason = f"it needs the data of a value ({self.op_name}) while tracing"
            symbol = tracer.symbol_of(self)  # whoever asks may have let go of it
            tracer.settle(what, reason)
            if symbol.value is not self:
                return symbol
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

    def overwrite(self, source: Any) -> None:
        """Ends the trace: no symbol can be changed in place."""
        self._operand("copy_").value.overwrite(source)

    def copy_into(self, target: Any) -> None:
        """Note that a tensor from outside the function is overwritten at each call."""
        tracer = thread.tracer
        if tracer is None or not tracer.has(self) or not tracer.overwrite(target, self):
            self._operand("copy_").value.copy_into(target)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Ends the trace: a leaf made inside the function would be lost."""
        return self._operand("requires_grad_").value.requires_grad_(requires_grad)

    def int_range(self, around: bool = False) -> Any:
        """Ends the trace: the range is in the data."""
        return self._operand("int_range").value.int_range(around)

    def to_host(self) -> Any:
        """Ends the trace: the host reads the data."""
        return self._operand("a read of the data").to_host()
