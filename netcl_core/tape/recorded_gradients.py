"""ag.grad, and the gradients that it records so that they can be differentiated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, final

from netcl_core.codegen.layout import Shape
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import Region, Signature
from netcl_core.codegen.strided_copy import COPY
from netcl_core.errors import ArgumentError, GradientError, message
from netcl_core.hardware.device import Device
from netcl_core.tape.apply import apply
from netcl_core.tape.computations import ACCUMULATE
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import Spread, seed_of, whole
from netcl_core.tape.modes import enable_grad
from netcl_core.tape.node import Node, target_of
from netcl_core.tape.region_call import RegionCall
from netcl_core.tape.reverse import deposits, grad_so_far, run_backward
from netcl_core.tape.separating import separate
from netcl_core.tape.state import thread
from netcl_core.tensors.arguments import lenient
from netcl_core.tensors.tensor import Tensor


@lru_cache(maxsize=1024)
def _call(region: Region, device: Device, signature: Signature, name: str) -> RegionCall:
    return RegionCall(Plan(region, device, signature), name)


def _recorded(region: Region, operands: Sequence[Any], shape: Shape | None, name: str) -> Any:
    tensors = tuple([(x.shape, x.dtype) for x in operands])
    signature = Signature(tensors, (), shape)
    return apply(_call(region, operands[0].device, signature, name), operands)


@final
class _Recording:
    """Operands throughout, by calls that go through `apply`; nothing is written in place."""

    __slots__ = ()
    records = True

    def seed(self, root: Any, seed: Any) -> Any:
        """The gradient of a result, connected with whatever it was computed from."""
        return seed_of(root, seed).to(root.device).astype(root.dtype)

    def add(self, held: Any, own: bool, term: Any) -> Any:
        """The sum of two gradients, which have one shape and dtype."""
        return _recorded(ACCUMULATE, [held, term], None, "accumulate")

    def gradients(
        self, node: Node, grads: Sequence[Any], needs: tuple[bool, ...], held: Sequence[Any] = ()
    ) -> Sequence[Any]:
        """By recorded calls; a constant that an op without gradient would make is refused."""
        outer, thread.differentiated = thread.differentiated, node.op_name
        try:
            parts = node.call.recorded_gradients(node, grads, needs)
            return [_whole(part) if type(part) is Spread else part for part in parts]
        finally:
            thread.differentiated = outer


def _whole(spread: Spread) -> Any:
    return _recorded(COPY, [spread.value], spread.shape, "expand")


RECORDING: Final = _Recording()


@lenient
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    allow_unused: bool = False,
    ready: Callable[[int, Any], Any] | None = None,
) -> list[Any]:
    """The gradients of the sum of `outputs` with respect to `inputs`, without touching `.grad`.

    >>> x = ag.tensor([3.0], requires_grad=True)
    >>> [dx] = ag.grad(x * x * x, [x], create_graph=True)
    >>> [ddx] = ag.grad(dx, [x])
    >>> dx.item(), ddx.item(), x.grad
    (27.0, 18.0, None)

    Args:
        outputs: A value or several.
        inputs: Leaves, or results on the way to the outputs; one or several, each once.
        grad_outputs: The gradient of each output, of its shape; default 1 for one element.
        retain_graph: Whether the graph can be walked again; default: as `create_graph`.
        create_graph: Whether the gradients are recorded, so that `ag.grad` and `backward` take
            them further, to any order, with respect to inputs and to `grad_outputs` alike.
        allow_unused: Whether an input may be one that the outputs do not depend on.
        ready: `(number of an input, its gradient) -> gradient`, called as soon as this gradient
            is complete, while others are still to be computed. What it returns is the gradient.

    Returns:
        A Tensor for each input, with `create_graph` a Node or (if it is constant) a Tensor; None
        for an input that the outputs do not depend on.

    Raises:
        GradientError: an input is not used and `allow_unused` is not set; the graph was walked
            before without `retain_graph=True`; an op has no second derivative, and `create_graph`
            asks for it.
        MutationError: a tensor that a gradient needs was changed in place.
    """
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    targets = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is None:
        seeds: list[Any] = [None] * len(roots)
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
    if len(seeds) != len(roots):
        raise ArgumentError(
            message("grad", f"{len(seeds)} grad_outputs", f"{len(roots)}, one per output")
        )
    for target in targets:
        separate(target)
    places = {target_of(target): i for i, target in enumerate(targets)}
    receive = None if ready is None else lambda target, gradients: ready(places[target], gradients)
    sums = RECORDING if create_graph else None
    frees = not (create_graph if retain_graph is None else retain_graph)
    gradients = run_backward(roots, seeds, False, targets, receive, sums=sums, frees=frees)
    for place, gradient in enumerate(gradients):
        if gradient is None and not allow_unused:
            raise _unused(place)
    return gradients


def _unused(place: int) -> GradientError:
    given = f"inputs[{place}], on which no output depends"
    remedy = "Set allow_unused=True to get None for it"
    return GradientError(message("grad", given, "inputs that the outputs depend on", remedy))


def accumulate_grad(target: Any, gradient: Any) -> None:
    """Add a gradient to `target.grad`, as `backward` does.

    >>> x = ag.tensor([3.0], requires_grad=True)
    >>> for _ in range(2):
    ...     [dx] = ag.grad(x * x, [x])
    ...     ag.accumulate_grad(x, dx)
    >>> x.grad.numpy()
    array([12.], dtype=float32)

    Threads that share a leaf lose nothing, and in a capture a leaf begins without a gradient.
    With grad mode on the sum of recorded gradients is recorded too.

    Args:
        target: A Tensor or Node.
        gradient: Of its shape and dtype.
    """
    if type(target) is Node and target.is_leaf:
        target = target.value
    with deposits:
        held = grad_so_far(target) if type(target) is not Node else target.grad
        target.grad = gradient if held is None else RECORDING.add(held, False, gradient)


def recomputed_gradients(
    function: Callable[..., Any],
    operands: Sequence[Any],
    grads: Sequence[Any],
    needs: Sequence[bool],
    record: bool,
) -> list[Any]:
    """The gradients of a function of ops, which is run again; None where none is needed.

    Args:
        function: Of the operands, in whose place others of the same values are given to it.
        operands: The operands, None for an absent one.
        grads: A gradient for each result, or None.
        needs: Whose gradients are wanted.
        record: Whether they are recorded, on the operands.
    """
    stand_in = branch if record else leaf
    pairs = zip(operands, needs, strict=True)
    given = [None if x is None else stand_in(x, need) for x, need in pairs]
    with forward_again():
        computed = function(*given)
    results = computed if isinstance(computed, (tuple, list)) else [computed]
    return gradients_of(results, grads, given, needs, record)


def gradients_of(
    results: Sequence[Any],
    grads: Sequence[Any],
    sources: Sequence[Any],
    needs: Sequence[bool],
    record: bool,
    since: int = 0,
) -> list[Any]:
    """The gradients of the sources of results, of which each has a gradient or None.

    None for a source that needs none. With `record` they are recorded on the sources; no gradient
    goes beyond what was made before the number `since`.
    """
    chosen = [
        (result, whole(gradient))
        for result, gradient in zip(results, grads, strict=True)
        if gradient is not None and result.requires_grad
    ]
    wanted = [x for x, need in zip(sources, needs, strict=True) if need]
    roots, seeds = [result for result, _ in chosen], [gradient for _, gradient in chosen]
    sums = RECORDING if record else None
    parts = iter(run_backward(roots, seeds, False, wanted, since=since, sums=sums))
    return [next(parts) if need else None for need in needs]


@contextmanager
def forward_again() -> Iterator[None]:
    """Grad mode on, for a forward within a gradient: it may hold ops without one."""
    outer, thread.differentiated = thread.differentiated, None
    try:
        with enable_grad():
            yield
    finally:
        thread.differentiated = outer


def leaf(x: Any, need: bool) -> Tensor:
    """The value as a leaf of its own."""
    return x.value.alias(x.shape).requires_grad_(need)  # type: ignore[no-any-return]  # a Tensor


def branch(x: Any, need: bool) -> Any:
    """The operand, as the result of a call if its gradient is wanted.

    Then the gradient is partial: it leaves out that one operand may come from another.
    """
    if not need:
        return x
    return apply_op(lambda value: value, lambda gradient: [gradient], x, op_name="same", saves=())
