"""Function: a pair of Python functions as a differentiable op, as `torch.autograd.Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, final

from netcl_core import DTYPES, Spec, Tensor, no_grad
from netcl_core.autograd import Node
from netcl_core.errors import MutationError, message
from netcl_core.inspect.recorded import (
    PlainCall,
    apart,
    apply,
    becomes,
    checked,
    former_of,
    no_second_derivative,
    refuse_unrecorded,
    result_nodes,
    thread,
    whole,
)

#: Of each input, or of each result, whether a gradient is wanted.
Needs: TypeAlias = tuple[bool, ...]
#: Why a compiled function does not go into one.
_OPAQUE: Final = "its forward is a Python function that the tracer cannot see into"


class FunctionCtx:
    """The `ctx` of a Function: what its forward leaves for its backward.

    >>> class Scaled(ag.Function):
    ...     @staticmethod
    ...     def forward(ctx, x, factor):
    ...         ctx.factor = factor
    ...         return x * factor
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * ctx.factor, None
    >>> x = nc.tensor([1.0, 2.0], requires_grad=True)
    >>> Scaled.apply(x, 3.0).sum().backward()
    >>> x.grad.tolist()
    [3.0, 3.0]

    Attributes may be set as one likes. `needs_input_grad` says of each argument of `apply` whether
    it needs a gradient.
    """

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True
        self._unpack: Callable[[], tuple[Any, ...]] | None = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs, results and other tensors (or None); a change of one of them is noticed."""
        self.to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved, in backward; raises MutationError if it was changed since."""
        return self.to_save if self._unpack is None else self._unpack()

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that these inputs were changed in place; forward has to return them."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that no gradient flows through these results."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros, or else None, for a result that has no gradient."""
        self.materialize_grads = value


class Function:
    """An op of your own: a static `forward` and `backward`, called by `apply`.

    >>> class Cube(ag.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x * x * grad
    >>> x = ag.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad.numpy()
    array([12.], dtype=float32)

    `forward` runs with grad mode off and returns a tensor or a tuple. `backward` gets a gradient
    for each of these and returns one, or None, for each argument of `apply`; it can be
    differentiated if it computes with ops. With a static `setup_context(ctx, inputs, output)`
    beside it, `forward` takes no ctx. In a compiled function it runs as it stands.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The results; `(ctx, *args)`, or `(*args)` beside a setup_context."""
        raise NotImplementedError("a Function needs a static forward")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what backward needs, of the arguments and the results."""
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments."""
        raise NotImplementedError("a Function needs a static backward")

    @classmethod
    @apart
    def apply(cls, *args: Any) -> Any:
        """The results for some arguments, recorded."""
        if thread.tracer is not None:
            thread.tracer.interrupt(cls.__name__, _OPAQUE)
        operands = [x for x in args if isinstance(x, Tensor)]
        ctx = FunctionCtx(tuple(isinstance(x, Tensor) and x.requires_grad for x in args))
        with no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        given = output if isinstance(output, tuple) else (output,)
        call = _Call(cls, ctx, args, given)
        if not operands or not call.values:
            return output
        dirty = {id(x) for x in ctx.dirty_tensors}
        inputs = [former_of(x) if id(x) in dirty else x for x in operands]
        outputs = apply(call, inputs)
        outputs = iter(outputs if isinstance(outputs, list) else [outputs])
        results = [next(outputs) if isinstance(x, Tensor) else x for x in given]
        for i, x in enumerate(given):
            if id(x) in dirty:
                old = inputs[[id(operand) for operand in operands].index(id(x))]
                results[i] = becomes(x, old, results[i], cls.__name__)
        return tuple(results) if isinstance(output, tuple) else results[0]


@final
class _Call(PlainCall):
    """One call of a Function, whose forward has run."""

    keeps = True

    def __init__(
        self, function: type[Function], ctx: FunctionCtx, args: Sequence[Any], given: Sequence[Any]
    ) -> None:
        self.function = function
        self.name = function.__name__
        self.ctx = ctx
        self.args = [x if isinstance(x, Tensor) else None for x in args]
        self.given = [isinstance(x, Tensor) for x in given]
        outputs = [x for x in given if isinstance(x, Tensor)]
        self.results = tuple([Spec(x.shape, x.dtype) for x in outputs])
        self.device: Any = next((x.device for x in (*outputs, *self.args) if x is not None), None)
        self.known: dict[Needs, Any] = {}
        handed = {id(x.value) for x in self.args if x is not None}
        handed -= {id(x.value) for x in ctx.dirty_tensors}
        self.values = [x.value.alias(x.shape) if id(x.value) in handed else x.value
                       for x in outputs]  # fmt: skip
        silent = {id(x) for x in ctx.non_differentiable}
        self._flows = [DTYPES[x.dtype].floating and id(x) not in silent for x in outputs]
        places = {id(x.value): i for i, x in enumerate(outputs)}
        self._saved = [x if x is None else _entry(x, places.get(id(x.value))) for x in ctx.to_save]
        self._count = len(self._saved)
        ctx.to_save = ()

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Any:
        return self.values if len(self.values) > 1 else self.values[0]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        results, saved = self.run(inputs, scalars), self._saved
        held = (
            self.values if any(x and x[0] is not None for x in saved) else [None] * len(self.values)
        )
        self._saved, self.values = [], []  # the node keeps them
        return results, (*held, *saved)

    def flows(self, needs: Needs) -> Needs:
        return tuple([flows and True in needs for flows in self._flows])

    def saves(self, needs: Needs) -> tuple[int, ...]:
        return ()

    def gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        return self._gradients(node, [None if g is None else whole(g) for g in grads], False)

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> Sequence[Any]:
        if getattr(self.function.backward, "once_differentiable", False):
            raise no_second_derivative(self.name, "its backward is once_differentiable")
        parts = self._gradients(node, grads, True)
        refuse_unrecorded(self.name, [x for x in parts if x is not None], grads)
        return parts

    def _gradients(self, node: Node, grads: Sequence[Any], recorded: bool) -> list[Any]:
        self.ctx._unpack = functools.partial(self._unpacked, node, recorded)
        if self.ctx.materialize_grads:
            rows = zip(grads, self.results, strict=True)
            grads = [
                Tensor.zeros(spec.shape, spec.dtype, node.device) if grad is None else grad
                for grad, spec in rows
            ]
        left = iter(grads)
        parts = self.function.backward(self.ctx, *[next(left) if x else None for x in self.given])
        parts = list(parts) if isinstance(parts, (tuple, list)) else [parts]
        while len(parts) > len(self.args) and parts[-1] is None:
            parts.pop()
        gradients = checked(self.name, parts, self.args, "it", recorded=recorded)
        return [part for x, part in zip(self.args, gradients, strict=True) if x is not None]

    def _unpacked(self, node: Node, recorded: bool) -> tuple[Any, ...]:
        """What was saved; of results, where gradients are recorded, with their graph."""
        if not self._count:
            return ()
        kept = node.kept
        values: list[Any] = []
        for entry in kept[len(self.results) :]:
            if entry is None:
                values.append(None)
                continue
            index, x, version = entry
            x = kept[index] if index is not None else x
            if x.value.version != version:
                given = f"a saved tensor of shape {x.shape} was changed in place since its forward"
                remedy = "Call backward before the change, or change a copy"
                raise MutationError(message(f"backward of {self.name}", given, "as it was", remedy))
            if recorded and index is not None and self._flows[index]:
                x = result_nodes(node, kept[: len(self.results)])[index]
            values.append(x)
        return tuple(values)


def _entry(x: Any, index: int | None) -> tuple[int | None, Any, int]:
    """Which result was saved, or else what, and its version."""
    return index, x if index is None else None, x.value.version


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the backward of a Function as one whose gradients cannot be differentiated again.

    >>> @ag.once_differentiable
    ... def backward(ctx, grad):
    ...     return grad * 2
    """

    @functools.wraps(backward)
    def call(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            return backward(ctx, *grads)

    call.once_differentiable = True  # type: ignore[attr-defined]
    return call
