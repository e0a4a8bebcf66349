"""The engine: Node, Tape, apply_op and the backward pass.

A Node is a value with the recipe of its gradient. Nodes carry a number that
grows with their creation, so the reverse order of the numbers is a reverse
topological order and the backward pass is one loop over a heap.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import traceback
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, Final, TypeAlias, final

from netcl_core.autograd import anomaly, frames
from netcl_core.autograd.kernels import accumulate, convert, duplicate, move
from netcl_core.autograd.modes import anomaly_mode, is_grad_enabled, no_grad
from netcl_core.errors import ArgumentError, GradientError, MutationError, ShapeError, message
from netcl_core.tensors import Operand, Tensor, host_array

GradFn: TypeAlias = Callable[[Tensor], Sequence[Tensor | None]]

_numbers: Final = itertools.count()
_CURRENT: Final = object()


@final
class Node(Operand):
    """One value of the graph: the result of an op, or a leaf made by `ag.tensor`.

    Attributes:
        grad_fn: `(grad_out) -> [gradient per input]`; None for leaves and constants.
        inputs: What the op was given: Nodes, Tensors, or plain values.
        op_name: The op's name.
        creation_trace: Formatted stack lines, kept while anomaly detection is on.
    """

    __slots__ = ("__weakref__", "_fn", "_frame", "_grad", "_requires_grad", "_tensor",
                 "_versions", "creation_trace", "grad_fn", "inputs", "number",
                 "op_name")  # fmt: skip

    _tensor: Tensor
    grad_fn: GradFn | None
    inputs: tuple[Any, ...]

    def __init__(
        self,
        value: Tensor,
        grad_fn: GradFn | None = None,
        parents: Sequence[Any] = (),
        requires_grad: bool = False,
        op_name: str | None = None,
    ) -> None:
        self._tensor = value
        self.grad_fn = grad_fn
        self.inputs = tuple(parents)
        self.op_name = op_name
        self.number = next(_numbers)
        self.creation_trace: list[str] | None = None
        self._requires_grad = requires_grad
        self._grad: Tensor | None = None
        self._fn: Callable[..., Tensor] | None = None
        self._frame: tuple[CodeType, int] | None = None
        self._versions: tuple[tuple[Tensor, int], ...] = ()
        if grad_fn is None and requires_grad:
            value.requires_grad_()

    @property
    def value(self) -> Tensor:
        return self._tensor

    @property
    def is_leaf(self) -> bool:
        """Whether no op made this value (its gradient is kept in `grad`)."""
        return self.grad_fn is None

    @property
    def parents(self) -> list[Node]:
        """The op's inputs as Nodes, in order; plain values are left out."""
        return [leaf_node(x) for x in self.inputs if isinstance(x, Operand)]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows through this value."""
        return self._tensor.requires_grad if self.grad_fn is None else self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            raise GradientError(
                message("requires_grad", f"the result of {self.op_name}", "a leaf", "Use detach()")
            )
        self._tensor.requires_grad_(value)

    @property
    def grad(self) -> Tensor | None:
        """The gradient: of a leaf after backward, of a result under `Tape(retain_grads=True)`."""
        return self._tensor.grad if self.grad_fn is None else self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self.grad_fn is None:
            self._tensor.grad = value
        else:
            self._grad = value

    @property
    def where(self) -> str:
        """`file:line` of the user's code that made this node."""
        return frames.describe(self._frame)


def leaf_node(value: Any) -> Node:
    """The Node of an operand: itself, or the one Node that stands for a leaf Tensor."""
    if isinstance(value, Node):
        return value
    node = value.leaf_node() if value.leaf_node is not None else None
    if node is None:
        node = Node(value)
        value.leaf_node = weakref.ref(node)
    return node


@final
class Tape:
    """A recorder of the forward pass: a context manager that becomes the current tape.

    `nodes` are the recorded nodes, kept until `reset()` or as long as the tape
    lives. With `retain_grads` intermediate values keep their gradients too.
    Leaving the block restores the tape that was current before, in every case.
    """

    def __init__(self, retain_grads: bool = False) -> None:
        self.enabled = True
        self.retain_grads = retain_grads
        self._nodes: list[Any] = []
        self._weak = False
        self._bound = 0
        self._outer: list[Tape | None] = []

    @property
    def nodes(self) -> list[Node]:
        """The recorded nodes in order (of the implicit tape: those that still live)."""
        if not self._weak:
            return self._nodes
        return [node for node in (ref() for ref in self._nodes) if node is not None]

    def record(self, node: Node) -> None:
        """Append a node, unless the tape is not enabled."""
        if not self.enabled:
            return
        if not self._weak:
            self._nodes.append(node)
            return
        self._nodes.append(weakref.ref(node))
        if len(self._nodes) > self._bound:
            self._nodes = [ref for ref in self._nodes if ref() is not None]
            self._bound = max(1024, 2 * len(self._nodes))

    def reset(self) -> None:
        """Forget the recorded nodes; the tensors and their gradients stay."""
        self._nodes = []

    def backward(self, loss: Any, grad: Any = None) -> None:
        """Compute the gradients of the leaves of `loss`; see `netcl_core.autograd.backward`."""
        if isinstance(loss, Tensor) and not loss.requires_grad:
            loss = next((node for node in reversed(self.nodes) if node.value is loss), loss)
        _run_backward([loss], [grad], self.retain_grads)

    def __enter__(self) -> Tape:
        self._outer.append(_thread.tape)
        _thread.tape = self
        return self

    def __exit__(self, *exc: object) -> None:
        _thread.tape = self._outer.pop()


def _implicit_tape() -> Tape:
    tape = Tape()
    tape._weak = True
    return tape


@final
class _ThreadState(threading.local):
    """The tapes of one thread: the implicit one, and the explicit one that is current."""

    def __init__(self) -> None:
        self.implicit = _implicit_tape()
        self.tape: Tape | None = None


_thread: Final = _ThreadState()


def get_current_tape() -> Tape:
    """The tape that records in this thread: the innermost `with Tape()`, else the implicit one."""
    return _thread.tape or _thread.implicit


def set_current_tape(tape: Tape | None) -> None:
    """Make a tape current in this thread; None: the thread's implicit tape."""
    _thread.tape = tape


def tensor(data: Any, requires_grad: bool = False) -> Node:
    """A leaf Node of a Tensor or of host data."""
    if isinstance(data, Node):
        return data
    value = data if isinstance(data, Tensor) else Tensor.from_host(data)
    if requires_grad:
        value.requires_grad_()
    return leaf_node(value)


def apply_op(
    fn: Callable[..., Tensor],
    grad_fn: GradFn | None,
    *args: Any,
    tape: Any = _CURRENT,
    op_name: str | None = None,
    attrs: dict[str, Any] | None = None,
    saves: Sequence[int] | None = None,
) -> Any:
    """Run an op and record it: the one place through which every op goes.

    Args:
        fn: The forward function; it gets Tensors where `args` holds Nodes.
        grad_fn: `(grad_out) -> [gradient or None per argument]`; None: no gradient.
        args: Nodes, Tensors, or plain values.
        tape: The tape to record on; default: the current one; None: record nothing.
        op_name: The op's name; default: the name of the calling function.
        attrs: The op's metadata, for tracers.
        saves: Which arguments `grad_fn` reads (default: all); changing one of these in
            place before backward raises MutationError there.

    Returns:
        A Node; the raw Tensor if grad mode is off.
    """
    value = fn(*[arg._tensor if type(arg) is Node else arg for arg in args])
    if not is_grad_enabled():
        return value
    if value.requires_grad:  # fn handed a leaf through: the result is a value of its own
        value = value.alias(value.shape)
    recorder = get_current_tape() if tape is _CURRENT else tape
    node = Node(value, op_name=op_name or frames.caller_name())
    if (
        grad_fn is None
        or recorder is None
        or not recorder.enabled
        or not any(arg.requires_grad for arg in args if isinstance(arg, Operand))
    ):
        return node
    node.grad_fn = grad_fn
    node.inputs = args
    node._requires_grad = True
    node._fn = fn
    node._frame = frames.user_frame()
    saved = args if saves is None else [args[i] for i in saves]
    node._versions = tuple(
        [(arg.value, arg.value.version) for arg in saved if isinstance(arg, Operand)]
    )
    if anomaly_mode()[0]:
        node.creation_trace = traceback.format_stack()[:-1]
    recorder.record(node)
    return node


def backward(loss: Any, grad: Any = None) -> None:
    """Add the gradient of `loss` to `grad` of every leaf that it was computed from.

    Args:
        loss: A Node (or the Tensor that it holds, while a tape knows it).
        grad: The gradient of `loss` itself, of its shape; default 1 for one element.

    Raises:
        ValueError: `loss` has several elements and no `grad` was given.
        GradientError: no leaf of `loss` needs a gradient.
        MutationError: a tensor that a gradient needs was changed in place.
    """
    get_current_tape().backward(loss, grad)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None) -> list[Tensor | None]:
    """The gradients of the sum of `outputs` with respect to `inputs`, without touching `.grad`.

    An input that the outputs do not depend on gets None.
    """
    roots = [outputs] if isinstance(outputs, Operand) else list(outputs)
    targets = [inputs] if isinstance(inputs, Operand) else list(inputs)
    if grad_outputs is None:
        seeds: list[Any] = [None] * len(roots)
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Operand) else list(grad_outputs)
    if len(seeds) != len(roots):
        raise ArgumentError(
            message("grad", f"{len(seeds)} grad_outputs", f"{len(roots)}, one per output")
        )
    found = _run_backward(roots, seeds, False, [_target(x) for x in targets])
    return [found.get(id(_target(x))) for x in targets]


def _target(operand: Any) -> Any:
    """What gradients are gathered for: a result's Node, or the Tensor of a leaf."""
    return operand.value if isinstance(operand, Node) and operand.is_leaf else operand


class _Sums:
    """The gradients that wait for their consumer.

    A sum that was made here belongs to us and takes further terms in place; what
    a grad_fn returned may be shared (with the upstream gradient, say) and is not
    written to.
    """

    def __init__(self) -> None:
        self._sums: dict[int, tuple[Tensor, bool]] = {}

    def add(self, target: Any, gradient: Tensor) -> None:
        held = self._sums.get(id(target))
        if held is None:
            self._sums[id(target)] = (gradient, False)
        else:
            self._sums[id(target)] = (accumulate(held[0], gradient, in_place=held[1]), True)

    def pop(self, target: Any) -> Tensor:
        return self._sums.pop(id(target))[0]

    def __contains__(self, target: Any) -> bool:
        return id(target) in self._sums


def _run_backward(
    roots: Sequence[Any], seeds: Sequence[Any], retain: bool, targets: Sequence[Any] | None = None
) -> dict[int, Tensor | None]:
    """The backward pass. With `targets` their gradients are returned and no leaf is touched."""
    wanted = None if targets is None else {id(target) for target in targets}
    found: dict[int, Tensor | None] = {}
    leaves: dict[int, Tensor] = {}
    sums = _Sums()
    heap: list[tuple[int, Node]] = []

    def push(target: Any, gradient: Tensor) -> None:
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
        push(_target(root), start)
    while heap:
        node = heapq.heappop(heap)[1]
        gradient = sums.pop(node)
        if wanted is not None and id(node) in wanted:
            found[id(node)] = gradient
        if retain:
            node.grad = gradient
            taken.add(id(gradient.buffer))
        with no_grad():
            parts = _gradients(node, gradient)
        for parent, part in zip(node.inputs, parts, strict=True):
            if part is not None and isinstance(parent, Operand) and parent.requires_grad:
                push(_target(parent), part)
    for leaf in leaves.values():
        gradient = sums.pop(leaf)
        if wanted is None:
            _deposit(leaf, gradient, taken)
        elif id(leaf) in wanted:
            found[id(leaf)] = gradient
    return found


def _deposit(leaf: Tensor, gradient: Tensor, taken: set[int]) -> None:
    """Add to a leaf's `grad`; a buffer that somebody else holds as well is copied first."""
    if leaf.grad is not None:
        leaf.grad = accumulate(leaf.grad, gradient, in_place=False)
        return
    leaf.grad = duplicate(gradient) if id(gradient.buffer) in taken else gradient
    taken.add(id(leaf.grad.buffer))


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
            raise ValueError(
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


def _gradients(node: Node, gradient: Tensor) -> Iterable[Tensor | None]:
    """Run a node's grad_fn and check what it returns."""
    for saved, version in node._versions:
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
        if part is not None and isinstance(parent, Operand) and part.shape != parent.shape:
            raise GradientError(
                message(
                    f"backward of {node.op_name}",
                    f"a gradient of shape {part.shape}",
                    f"the input's shape {parent.shape}",
                )
            )
    check, numerics = anomaly_mode()
    if check:
        anomaly.check_finite(node, values)
    if numerics:
        anomaly.check_directional(node, gradient, values)
    return values
