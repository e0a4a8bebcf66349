"""Node: one value of the graph, with the recipe of its gradient.

Nodes carry a number that grows with their creation, so the reverse order of the
numbers is a reverse topological order of every graph.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import GradientError, message
from netcl_core.tape import frames
from netcl_core.tensors.tensor import Operand, Tensor

GradFn: TypeAlias = Callable[..., Sequence[Any]]

_numbers: Final = itertools.count()


def next_number() -> int:
    """A number above those of all nodes so far."""
    return next(_numbers)


@final
class Node(Operand):
    """One value of the graph: the result of an op, or a leaf made by `ag.tensor`.

    Attributes:
        grad_fn: `(grad_out) -> [gradient per input]`; None for leaves and constants.
        inputs: What the op was given: Nodes, Tensors, or plain values.
        op_name: The op's name.
        creation_trace: Formatted stack lines, kept while anomaly detection is on.
        fn: The forward function, for checks of the gradient.
        frame: The user's code object and instruction; `where` makes it readable.
        tape: The implicit tape that recorded this node, if one did.
        spread: Whether `grad_fn` takes a Spread as it is.
        versions: The tensors that `grad_fn` reads with their versions at that time.
    """

    __slots__ = ("__weakref__", "_grad", "_requires_grad", "creation_trace", "fn", "frame",
                 "grad_fn", "inputs", "number", "op_name", "spread", "tape", "value",
                 "versions")  # fmt: skip

    value: Tensor  # a slot instead of Operand's property
    grad_fn: GradFn | None
    inputs: tuple[Any, ...]

    def __init__(
        self,
        value: Tensor,
        grad_fn: GradFn | None = None,
        parents: Sequence[Any] = (),
        requires_grad: bool = False,
        op_name: str | None = None,
        fn: Callable[..., Tensor] | None = None,
        frame: tuple[CodeType, int] | None = None,
        versions: tuple[tuple[Tensor, int], ...] = (),
        spread: bool = False,
    ) -> None:
        self.number = next(_numbers)
        self.value = value
        self.grad_fn = grad_fn
        self.inputs = parents if type(parents) is tuple else tuple(parents)
        self.op_name = op_name
        self.creation_trace: list[str] | None = None
        self._requires_grad = requires_grad
        self._grad: Tensor | None = None
        self.fn = fn
        self.frame = frame
        self.spread = spread
        self.tape: Any = None
        self.versions = versions
        if requires_grad and grad_fn is None:
            value.requires_grad_()

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
        return self.value.requires_grad if self.grad_fn is None else self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None:
            raise GradientError(
                message("requires_grad", f"the result of {self.op_name}", "a leaf", "Use detach()")
            )
        self.value.requires_grad_(value)

    @property
    def grad(self) -> Tensor | None:
        """The gradient: of a leaf after backward, of a result under `Tape(retain_grads=True)`."""
        return self.value.grad if self.grad_fn is None else self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if self.grad_fn is None:
            self.value.grad = value
        else:
            self._grad = value

    @property
    def where(self) -> str:
        """`file:line` of the user's code that made this node."""
        return frames.describe(self.frame)


@final
class Spread:
    """A gradient that is constant along some dimensions, kept small until it is needed whole.

    `value` has size 1 along these dimensions; `shape` is the full shape. The gradient of
    a sum is one: an elementwise kernel reads the single elements where they stand.
    """

    __slots__ = ("shape", "value")

    def __init__(self, value: Tensor, shape: tuple[int, ...]) -> None:
        self.value = value
        self.shape = shape

    @property
    def dtype(self) -> str:
        """The dtype's name."""
        return self.value.dtype


@final
class Parts:
    """The gradients of the results of one op with several results, by their index."""

    __slots__ = ("of",)

    def __init__(self, of: dict[int, Any]) -> None:
        self.of = of


def leaf_node(value: Any) -> Node:
    """The Node of an operand: itself, or the one Node that stands for a leaf Tensor."""
    if isinstance(value, Node):
        return value
    node = value.leaf_node() if value.leaf_node is not None else None
    if node is None:
        node = Node(value)
        value.leaf_node = weakref.ref(node)
    return node
