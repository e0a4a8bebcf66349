"""Hooks: what is called with the gradient of a value as soon as it is complete.

The reverse pass asks only whether there are any at all, so values without hooks pay nothing.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import ArgumentError, GradientError, message
from netcl_core.tape.gradients import checked, refuse_unrecorded, whole
from netcl_core.tape.node import Node, Target, origin
from netcl_core.tape.separating import separate
from netcl_core.tape.state import thread
from netcl_core.tensors.tensor import Tensor

Hook: TypeAlias = Callable[[Any], Any]


@final
class _Row:
    """The hooks of one value by their number, and whether its gradient is retained."""

    __slots__ = ("hooks", "retained")

    def __init__(self) -> None:
        self.hooks: dict[int, Hook] = {}
        self.retained = False


#: By what the gradient belongs to; a row goes when its value does.
hook_rows: Final[dict[Target, _Row]] = {}
_numbers: Final = itertools.count()


@final
class HookHandle:
    """What `register_hook` returns: `remove()` takes the hook away, more than once is allowed."""

    __slots__ = ("_number", "_row")

    def __init__(self, row: _Row, number: int) -> None:
        self._row = row
        self._number = number

    def remove(self) -> None:
        """Take the hook away."""
        self._row.hooks.pop(self._number, None)


def register_hook(x: Tensor, hook: Hook) -> HookHandle:
    """Call `hook(gradient)` in each reverse pass, as soon as the gradient of `x` is complete.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> ag.sum(x * x).backward()
    >>> x.grad.numpy()
    array([20., 40.], dtype=float32)
    >>> handle.remove()

    Args:
        x: A leaf that needs a gradient, or a result through which one flows.
        hook: Gets a Tensor of the shape and dtype of `x`, which it must not write to. What it
            returns (a tensor of that shape) takes the gradient's place; None leaves it. Several
            are called in the order in which they were registered, each with what the one before
            it left. Of a leaf it is the gradient of this pass, before it is added to `grad`. With
            `create_graph` it gets and returns Nodes.

    Raises ArgumentError for what cannot be called, GradientError if no gradient reaches `x`.
    """
    if not callable(hook):
        raise ArgumentError(message("register_hook", f"{hook!r}", "a function of the gradient"))
    row = _row_of(x, "register_hook")
    number = next(_numbers)
    row.hooks[number] = hook
    return HookHandle(row, number)


def when_backward_ends(function: Callable[[], None]) -> bool:
    """Call a function once, when the `backward` that runs in this thread has ended.

    >>> x = ag.tensor([1.0], requires_grad=True)
    >>> said = lambda: print("x.grad is", x.grad.numpy())
    >>> handle = x.register_hook(lambda grad: print(ag.when_backward_ends(said)))
    >>> ag.sum(x * 2).backward()
    True
    x.grad is [2.]

    It is for hooks that begin something which ends when all gradients are there. All leaves have
    their `grad` by then. It is not called if the pass fails; one inside another, as checkpoints
    have it, ends with the outer one.

    Returns:
        Whether it will be called: False outside of a `backward`, and in `ag.grad`, which leaves
        nothing in `grad`.
    """
    if thread.ending is None:
        return False
    thread.ending.append(function)
    return True


def move_hooks(x: Node, index: int, to: Node, number: int) -> _Row | None:
    """Let the hooks of a result be those of another node's, which has its record from now on."""
    row = hook_rows.pop((id(x), index), None)
    return row and _enter(to, number, row)


def leave_hooks(x: Node, former: Node) -> None:
    """Let the hooks of a result be those of what it was, now that it is changed in place.

    What it is then has none, and keeps its gradient if that was asked for. (PyTorch's rule)
    """
    if not hook_rows or x.source is not None:  # the record of the call stays where it is
        return
    for index in [index for owner, index in hook_rows if owner == id(x)]:
        row = move_hooks(x, index, former, index)
        if row is not None and index == x.index and row.retained:
            row.retained = False
            _enter(x, 0, _Row()).retained = True


def retain_grad(x: Tensor) -> None:
    """Let the result of an op keep its gradient in `grad`, as leaves do.

    `x` may have any shape.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * x
    >>> y.retain_grad()
    >>> ag.sum(y).backward()
    >>> y.grad.numpy()
    array([1., 1.], dtype=float32)

    The latest pass leaves it, after the hooks. For a leaf nothing changes. Raises
    GradientError if no gradient reaches `x`.
    """
    _row_of(x, "retain_grad").retained = True


def _row_of(x: Tensor, who: str) -> _Row:
    if thread.tracer is not None:
        thread.tracer.settle(who, "it is about a single call, not the compiled function")
    if not x.requires_grad:
        given, expected = "a value through which no gradient flows", "one with requires_grad"
        raise GradientError(message(who, given, expected, "Call requires_grad_() on the leaf"))
    separate(x)
    owner, index = origin(x)
    target = id(owner), index
    row = hook_rows.get(target)
    return _enter(owner, index, _Row()) if row is None else row


def _enter(owner: Any, index: int, row: _Row) -> _Row:
    target = id(owner), index
    weakref.finalize(owner, hook_rows.pop, target, None).atexit = False
    hook_rows[target] = row
    return row


def passed(owner: Any, index: int, gradient: Any) -> Any:
    """A complete gradient after the hooks of its value.

    Args:
        owner: The leaf's Tensor, or the node with the record of a call.
        index: Of which result of the call.
    """
    row = hook_rows.get((id(owner), index))
    if row is None:
        return gradient
    for hook in list(row.hooks.values()):
        gradient = whole(gradient)
        given = hook(gradient)
        if given is not None:
            recorded = bool(thread.grad)  # as it is in a pass that records
            [replacement] = checked("a hook", [given], [gradient], recorded=recorded)
            if recorded:
                refuse_unrecorded("a hook", [replacement], [gradient])
            gradient = replacement
    if row.retained and type(owner) is Node:
        gradient = keep(owner, index, gradient)
    return gradient


def keep(node: Node, index: int, gradient: Any) -> Any:
    """Leave the gradient of a result in the nodes that stand for it; returns it as a Tensor."""
    gradient = whole(gradient)
    for result in (node, *node.others()):  # also of a graph, whose elements are gone
        if result.index == index:
            result.grad = gradient
    return gradient
