"""FunctionCall: a pair of Python functions as an op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

from netcl_core.plugins.registry import registry
from netcl_core.tape.apply import Needs, PlainCall, apply
from netcl_core.tape.gradients import checked, refuse_unrecorded, whole
from netcl_core.tape.node import Node, caller_name
from netcl_core.tape.state import casting_by, thread
from netcl_core.tape.tape import get_current_tape
from netcl_core.tensors.functions import functions
from netcl_core.tensors.tensor import Tensor

_CURRENT: Final = object()


@final
class FunctionCall(PlainCall):
    """A forward and a backward function as a call, for one use.

    `args` are the function's arguments as given; those that are Operands are the call's inputs.
    """

    results = None

    def __init__(
        self,
        fn: Callable[..., Any],
        grad_fn: Callable[..., Any] | None,
        args: Sequence[Any],
        name: str,
        saves: Sequence[int] | None,
    ) -> None:
        self.fn = fn
        self.grad_fn = grad_fn
        self.name = name
        self.args = args
        self.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        self.device = args[self.places[0]].device if self.places else None
        self.known: dict[Needs, Any] = {}
        self._saves = range(len(args)) if saves is None else saves

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        args = list(self.args)
        for place, value in zip(self.places, inputs, strict=True):
            args[place] = value
        with casting_by(None):
            value = self.fn(*args)
        if type(value) is Node:  # fn called ops itself; grad_fn is what counts
            value = value.value
        if value.requires_grad:  # fn handed a leaf through: the result is a value of its own
            value = value.alias(value.shape)
        return value

    def flows(self, needs: Needs) -> Needs:
        return (self.grad_fn is not None and True in needs,)

    def saves(self, needs: Needs) -> tuple[int, ...]:
        return tuple(i for i, place in enumerate(self.places) if place in self._saves)

    def gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        assert self.grad_fn is not None  # else nothing flows
        operands = [x if isinstance(x, Tensor) else None for x in self.args]
        parts = checked(self.name, self.grad_fn(whole(grads[0])), operands, "grad_fn")
        return [parts[place] for place in self.places]

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        """The same by `grad_fn` with a recorded gradient; raises where it leaves the graph."""
        assert self.grad_fn is not None  # else nothing flows
        operands = [x if isinstance(x, Tensor) else None for x in self.args]
        parts = checked(self.name, self.grad_fn(grads[0]), operands, "grad_fn", recorded=True)
        refuse_unrecorded(self.name, parts, grads)
        return [parts[place] for place in self.places]


def set_fields(
    node: Node,
    given: Any,
    more: Any,
    grad_fn: Callable[..., Sequence[Any]] | None = None,
    parents: Sequence[Any] = (),
    grad: Any = None,
    requires_grad: bool = False,
    creation_trace: list[str] | None = None,
) -> None:
    """Make of a new node what the fields of `Node(value, grad_fn, parents, ...)` say.

    `given` and `more` are what stood second and third: a name, or `grad_fn` and `parents`.
    """
    node.op_name, node.call = given, None
    if callable(given):
        grad_fn, parents, node.op_name = given, more or parents, None
    if grad_fn is not None:
        value = node.value
        name = node.op_name or "grad_fn"
        result = apply_op(lambda *_: value, grad_fn, *parents, op_name=name)
        if isinstance(result, Node):
            node.take_over(result)
    elif requires_grad:
        node.requires_grad_()
    node.grad, node.creation_trace = grad, creation_trace or node.creation_trace


def _is_primitive(name: str, args: Sequence[Any]) -> bool:
    """Whether a primitive of this name takes as many arguments, so that it can be fused."""
    registry.load(("primitive",), name)
    rows = registry.rows("primitive", name)
    return bool(rows) and rows[0].record.fusible and rows[0].record.arity in (None, len(args))


def apply_op(
    fn: Callable[..., Tensor],
    grad_fn: Callable[..., Sequence[Any]] | None,
    *args: Any,
    tape: Any = _CURRENT,
    op_name: str | None = None,
    attrs: dict[str, Any] | None = None,
    saves: Sequence[int] | None = None,
) -> Any:
    """Run a pair of Python functions as an op and record it.

    Example:
        >>> double = lambda x: ag.apply_op(
        ...     lambda x: x * 2, lambda grad: [grad * 2], x, op_name="double")
        >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
        >>> ag.sum(double(x)).backward()
        >>> x.grad.numpy()
        array([2., 2.], dtype=float32)

    Args:
        fn: The forward function; it gets Tensors where `args` holds Nodes, and returns a Tensor.
            It may return an input itself. Ops that it calls are not what is recorded.
        grad_fn: `(grad_out) -> [gradient or None per argument]`; None: no gradient. `grad_out` is
            a Tensor of the result's shape and dtype; each gradient has its argument's shape and
            may be `grad_out` itself. Neither may be written to. It runs with grad mode off; for
            `ag.grad(..., create_graph=True)` with it on, and has to compute with ops then.
        args: Nodes, Tensors, or plain values.
        tape: The tape to record on; default: the current one; None: record nothing.
        op_name: The op's name; default: the name of the calling function. Where a function is
            compiled and a primitive has this name, that primitive is computed there.
        attrs: The op's metadata, for tracers.
        saves: Which arguments `grad_fn` reads (default: all); changing one of these in
            place before backward raises MutationError there.

    Returns:
        A Node; the raw Tensor if grad mode is off.

    Raises, at backward, GradientError for a wrong number or shape of gradients.
    """
    if thread.tracer is not None and op_name is not None and _is_primitive(op_name, args):
        return functions[op_name](*args, **(attrs or {}))
    call = FunctionCall(
        fn, None if tape is None else grad_fn, args, op_name or caller_name(), saves
    )
    operands = [args[place] for place in call.places]
    if tape is _CURRENT or tape is None or tape is get_current_tape():
        return apply(call, operands, (), attrs)
    before, thread.tape = thread.tape, tape
    try:
        return apply(call, operands, (), attrs)
    finally:
        thread.tape = before
