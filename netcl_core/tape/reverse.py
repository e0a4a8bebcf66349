"""The reverse pass: one loop over a heap of nodes, latest first.

Each gradient is taken out of the sums when its node is reached, so it is freed
as soon as it has been used.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from netcl_core.errors import ArgumentError, GradientError, MutationError, ShapeError, message
from netcl_core.tape import anomaly
from netcl_core.tape.gradients import accumulate, convert, duplicate, move, whole
from netcl_core.tape.modes import anomaly_mode, no_grad
from netcl_core.tape.node import Node, Parts, Spread
from netcl_core.tape.state import thread
from netcl_core.tape.tracing import TraceBreak
from netcl_core.tensors.host_data import host_array
from netcl_core.tensors.tensor import Operand, Tensor

#: Held while a leaf's `grad` is read and replaced, so that threads with shared leaves lose nothing.
_deposits: Final = threading.RLock()


def target_of(operand: Any) -> Any:
    """What gradients are gathered for: a result's Node, or the Tensor of a leaf."""
    return operand.value if isinstance(operand, Node) and operand.is_leaf else operand


class _Sums:
    """The gradients that wait for their consumer.

    A sum that was made here belongs to us and takes further terms in place; what
    a grad_fn returned may be shared (with the upstream gradient, say) and is not
    written to.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Any, bool]] = {}

    def add(self, target: Any, gradient: Any) -> None:
        held = self._sums.get(id(target))
        if held is None:
            self._sums[id(target)] = (gradient, False)
        elif isinstance(gradient, Parts):  # of other results: each comes once
            self._sums[id(target)] = (Parts(held[0].of | gradient.of), False)
        else:
            self._sums[id(target)] = _sum(*held, gradient)

    def pop(self, target: Any) -> Any:
        return self._sums.pop(id(target))[0]

    def __contains__(self, target: Any) -> bool:
        return id(target) in self._sums


def _sum(held: Any, own: bool, term: Any) -> tuple[Any, bool]:
    """The sum of two gradients, and whether it is ours to write to."""
    if isinstance(held, Spread) and isinstance(term, Spread):
        if held.value.shape == term.value.shape:
            small = accumulate(held.value, term.value, in_place=own)
            return Spread(small, held.shape), True
    elif isinstance(held, Spread):
        held, term = term, held
        own = False
    return accumulate(whole(held), whole(term), in_place=own and not isinstance(held, Spread)), True


def run_backward(
    roots: Sequence[Any], seeds: Sequence[Any], retain: bool, targets: Sequence[Any] | None = None
) -> dict[int, Tensor | None]:
    """The backward pass. With `targets` their gradients are returned and no leaf is touched."""
    wanted = None if targets is None else {id(target) for target in targets}
    found: dict[int, Tensor | None] = {}
    leaves: dict[int, Tensor] = {}
    sums = _Sums()
    heap: list[tuple[int, Node]] = []

    if thread.tracer is not None:
        raise TraceBreak("backward", "a backward pass inside the function")

    def push(target: Any, gradient: Any) -> None:
        if target not in sums:
            if isinstance(target, Node):
                heapq.heappush(heap, (-target.number, target))
            else:
                leaves[id(target)] = target
        sums.add(target, gradient)

    taken: set[int] = set()
    for root, seed in zip(roots, seeds, strict=True):
        _check_root(root)
        start = _seed(root, seed)
        taken.add(id(start.buffer))
        push(target_of(root), start)
    unrecorded = no_grad()
    while heap:
        node = heapq.heappop(heap)[1]
        gradient = sums.pop(node)
        if type(gradient) is Spread and (retain or wanted is not None or not node.spread):
            gradient = whole(gradient)
        if wanted is not None and id(node) in wanted:
            found[id(node)] = gradient
        if retain and not isinstance(gradient, Parts):
            node.grad = gradient
            taken.add(id(gradient.buffer))
        with unrecorded:
            parts = _gradients(node, gradient)
        for parent, part in zip(node.inputs, parts, strict=True):
            if part is not None and isinstance(parent, Operand) and parent.requires_grad:
                push(target_of(parent), part)
    for leaf in leaves.values():
        gradient = whole(sums.pop(leaf))
        if wanted is None:
            _deposit(leaf, gradient, taken)
        elif id(leaf) in wanted:
            found[id(leaf)] = gradient
    return found


def _deposit(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """Add to a leaf's `grad`; a buffer that somebody else holds as well is copied first."""
    with _deposits:
        if leaf.grad is not None:
            leaf.grad = accumulate(leaf.grad, gradient, in_place=False)
            return
        kept = duplicate(gradient) if id(gradient.buffer) in taken else gradient
        leaf.grad = kept = convert(kept, leaf.dtype)
    taken.add(id(kept.buffer))


def _check_root(root: Any) -> None:
    if not isinstance(root, Operand):
        raise ArgumentError(message("backward", f"{type(root).__name__}", "a Node or a Tensor"))
    if not root.requires_grad:
        raise GradientError(
            message(
                "backward",
                "no input of this value requires a gradient",
                "a value computed with grad mode on from a leaf with requires_grad=True",
                "Set requires_grad=True before the forward pass, and pass the Node that it made",
            )
        )


def _seed(root: Any, seed: Any) -> Tensor:
    if seed is None:
        if root.size != 1:
            raise ShapeError(
                message(
                    "backward",
                    f"a value of shape {root.shape} and no gradient for it",
                    "a value of one element, or grad=",
                    "Reduce it with sum() or mean(), or pass grad=<tensor of that shape>",
                )
            )
        return Tensor.full(root.shape, 1, root.dtype, root.device)
    if isinstance(seed, Operand):
        value = seed.value
    else:
        value = Tensor.from_host(host_array(seed, root.dtype), root.device)
    if value.shape != root.shape:
        raise ShapeError(message("backward", f"grad of shape {value.shape}", f"{root.shape}"))
    return convert(move(value, root.device), root.dtype)


def _gradients(node: Node, gradient: Any) -> Iterable[Any]:
    """Run a node's grad_fn and check what it returns."""
    for saved, version in node.versions:
        if saved.version != version:
            raise MutationError(
                message(
                    f"backward of {node.op_name}",
                    f"an input of shape {saved.shape} was changed in place after the forward "
                    f"pass of {node.where}",
                    "inputs as they were",
                    "Call backward before the change, or change a copy",
                )
            )
    assert node.grad_fn is not None  # leaves are never on the heap
    parts = node.grad_fn(gradient)
    if not isinstance(parts, (list, tuple)) or len(parts) != len(node.inputs):
        given = len(parts) if isinstance(parts, (list, tuple)) else type(parts).__name__
        raise GradientError(
            message(
                f"backward of {node.op_name}",
                f"grad_fn returned {given}",
                f"{len(node.inputs)} gradients, one per input",
            )
        )
    values = [part.value if isinstance(part, Operand) else part for part in parts]
    for parent, part in zip(node.inputs, values, strict=True):
        if part is None or isinstance(part, Parts) or not isinstance(parent, Operand):
            continue
        if part.shape != parent.shape:
            raise GradientError(
                message(
                    f"backward of {node.op_name}",
                    f"a gradient of shape {part.shape}",
                    f"the input's shape {parent.shape}",
                )
            )
    check, numerics = anomaly_mode()
    if check or numerics:
        seen = [None if isinstance(part, Parts) or part is None else whole(part) for part in values]
        if check:
            anomaly.check_finite(node, seen)
        if numerics and node.fn is not None:
            anomaly.check_directional(node, whole(gradient), seen)
    return values
