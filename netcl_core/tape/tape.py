"""Tape: the recorder of a forward pass, and the functions that start a backward pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

from netcl_core import plugins
from netcl_core.tape.node import Node, leaf_node, next_number
from netcl_core.tape.reverse import run_backward
from netcl_core.tape.state import Entries, process, thread
from netcl_core.tensors.arguments import lenient
from netcl_core.tensors.tensor import Tensor


@final
class Tape:
    """A recorder of the forward pass: a context manager that becomes the current tape.

    >>> x = ag.tensor([2.0], requires_grad=True)
    >>> with ag.Tape() as tape:
    ...     y = x * x
    >>> [node.op_name for node in tape.nodes]
    ['mul']

    `nodes` are the recorded nodes, kept until `reset()` or as long as the tape
    lives. With `retain_grads` intermediate values keep their gradients too.
    Leaving the block restores the tape that was current before, in every case.
    """

    def __init__(self, retain_grads: bool = False) -> None:
        self.records = True  # what `enabled` was set to
        self.retain_grads = retain_grads
        self._nodes: list[Node] = []
        self.implicit = False
        self._first = 0
        self._outer = Entries()

    @property
    def enabled(self) -> bool:
        """Whether ops are recorded on it now: not under `no_grad`, nor once it was set to False."""
        mode = thread.grad
        return self.records and (process.grad if mode is None else mode)

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self.records = bool(enabled)

    @property
    def nodes(self) -> list[Node]:
        """The recorded nodes in order.

        Those of the implicit tape are the ones that still live. It keeps no list, which
        every op would pay for, but asks Python's collector: for looking, not for loops.
        """
        if not self.implicit:
            return self._nodes
        mine = [thing for thing in gc.get_objects() if type(thing) is Node and thing.tape is self]
        recorded = {node.living() for node in mine if node.number >= self._first}
        return sorted(recorded, key=_number)

    def record(self, node: Node) -> None:
        """Append a node, unless the tape is not enabled."""
        if not self.records:
            return
        if self.implicit:
            node.tape = self
        else:
            self._nodes.append(node)

    def replace(self, node: Node, other: Node) -> None:
        """Put another node in a recorded one's place."""
        places = (i for i in reversed(range(len(self._nodes))) if self._nodes[i] is node)
        place = next(places, None)
        if place is not None:
            self._nodes[place] = other

    def reset(self) -> None:
        """Forget the recorded nodes; the tensors and their gradients stay."""
        self._nodes = []
        self._first = next_number()

    def to_dot(self) -> str:
        """The recorded nodes, their inputs and shapes as a graph in Graphviz' language DOT.

        >>> with ag.Tape() as tape:
        ...     y = ag.tensor([1.0], requires_grad=True) * 2
        >>> "t1 = mul(leaf 0, 2)" in tape.to_dot()  # for `dot -Tsvg`
        True

        The namespace `tapes` draws it; docs/gradients.md shows the drawing.
        """
        drawn: str = plugins.namespace("tapes", "Tape.to_dot").tape_dot(self)
        return drawn

    def backward(self, loss: Any, grad: Any = None, retain_graph: bool = False) -> None:
        """Compute the gradients of the leaves of `loss`; see `netcl_core.autograd.backward`."""
        if isinstance(loss, Tensor) and type(loss) is not Node and not loss.requires_grad:
            loss = next((node for node in reversed(self.nodes) if node.value is loss), loss)
        run_backward([loss], [grad], self.retain_grads, frees=not retain_graph)

    def __enter__(self) -> Tape:
        self._outer.push(thread.tape)
        thread.tape = self
        return self

    def __exit__(self, *exc: object) -> None:
        thread.tape = self._outer.restored(thread.tape)


def _number(node: Node) -> int:
    return node.number


def recorder() -> Tape:
    """The thread's implicit tape, made and put in place if no tape is current."""
    if thread.tape is None:
        if thread.implicit is None:
            thread.implicit = Tape()
            thread.implicit.implicit = True
        thread.tape = thread.implicit
    return thread.tape  # type: ignore[no-any-return]  # a Tape


recorder()  # of the thread that imports netcl; other threads get theirs with their first op


def get_current_tape() -> Tape:
    """The tape that records in this thread: the innermost `with Tape()`, else the implicit one.

    >>> with ag.Tape() as tape:
    ...     print(ag.get_current_tape() is tape)
    True
    """
    return thread.tape or recorder()


def set_current_tape(tape: Tape | None) -> None:
    """Make a tape current in this thread; None: the thread's implicit tape.

    >>> ag.set_current_tape(tape := ag.Tape())
    >>> ag.get_current_tape() is tape
    True
    >>> ag.set_current_tape(None)
    """
    thread.tape = tape


def tensor(data: Any, requires_grad: bool = False) -> Node:
    """A leaf Node of a Tensor or of host data.

    >>> ag.tensor([1, 2.5], requires_grad=True).dtype
    'float32'
    """
    if isinstance(data, Node):
        return data
    value = data if isinstance(data, Tensor) else Tensor.from_host(data)
    if requires_grad:
        value.requires_grad_()
    return leaf_node(value)


@lenient
def backward(loss: Any, grad: Any = None, retain_graph: bool = False) -> None:
    """Add the gradient of `loss` to `grad` of every leaf that it was computed from.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> ag.backward(x * x, grad=[1.0, 10.0])
    >>> x.grad.numpy()
    array([ 2., 40.], dtype=float32)

    Args:
        loss: A Node (or the Tensor that it holds, while a tape knows it).
        grad: The gradient of `loss` itself, of its shape; default 1 for one element.
        retain_graph: Whether the graph can be walked again. By default each op lets go of the
            values that it saved as soon as its gradients are computed.

    Raises:
        ValueError: `loss` has several elements and no `grad` was given.
        GradientError: no leaf of `loss` needs a gradient, or the graph was walked before without
            `retain_graph=True`.
        MutationError: a tensor that a gradient needs was changed in place.
    """
    get_current_tape().backward(loss, grad, retain_graph)


@contextmanager
def debug_tape(tape: Tape | None = None) -> Iterator[Tape]:
    """Yield `tape` (default: the current one), recording on it inside the block.

    >>> with ag.debug_tape(ag.Tape()) as tape:
    ...     y = ag.tensor([1.0], requires_grad=True) + 1
    >>> tape.nodes[0].op_name
    'add'
    """
    chosen = get_current_tape() if tape is None else tape
    if chosen is get_current_tape():
        yield chosen
    else:
        with chosen:
            yield chosen
