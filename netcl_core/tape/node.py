"""Node: one value of the graph, with the call that made it.

Nodes carry a number that grows with their creation, so the reverse order of the
numbers is a reverse topological order of every graph.
"""

from __future__ import annotations

import itertools
import linecache
import sys
import weakref
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import GradientError, message
from netcl_core.plugins.registry import registry
from netcl_core.tensors.tensor import Operand, Tensor


class _Own(dict[str, bool]):
    """Whether a module is netcl's or an active plugin's, by its name; found once per name."""

    def __missing__(self, module: str) -> bool:
        package = module.partition(".")[0]
        ours = self[module] = package == "netcl_core" or package in registry.packages
        return ours


_own: Final = _Own()
registry.on_change(_own.clear)


def is_own(module: str) -> bool:
    """Whether a module belongs to netcl or to a plugin."""
    return _own[module]


def user_frame() -> tuple[CodeType, int] | None:
    """The code object and instruction of the user's frame; cheap, the line is found later."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if not _own[frame.f_globals.get("__name__", "")]:
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def line_of(frame: tuple[CodeType, int]) -> tuple[str, int]:
    """The file and the line of a kept frame."""
    code, instruction = frame
    positions = list(code.co_positions())
    return code.co_filename, positions[instruction // 2][0] or code.co_firstlineno


def describe_frame(frame: tuple[CodeType, int] | None) -> str:
    """`file:line, in function: source line` of a kept frame."""
    if frame is None:
        return "an unknown place"
    file, line = line_of(frame)
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}, in {frame[0].co_name}" + (f": {text}" if text else "")


def caller_name() -> str:
    """The name of the function that called `apply_op`."""
    return sys._getframe(2).f_code.co_name


_numbers: Final = itertools.count()


def next_number() -> int:
    """A number above those of all nodes so far."""
    return next(_numbers)


@final
class Node(Operand):
    """One value of the graph: the result of a call, or a leaf made by `ag.tensor`.

    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> y.op_name, y.is_leaf, y.parents[0] is x
    ('mul', False, True)

    Of a call with several results the first that a gradient reaches is the node that holds the
    record; the others name it as their `source`.

    Attributes:
        value: The Tensor; in a trace a TraceNode.
        call: What made it (see `apply.Call`); None for leaves and constants.
        inputs: The operands of the call: Nodes and Tensors.
        scalars: The Python numbers of the call.
        needs: Which inputs needed a gradient when the call was made.
        kept: What the call wants to have again for its gradients.
        versions: The tensors that the gradients read, with their versions at that time.
        index: Which result of the call it is.
        source: The node with the record, if it is another one.
        op_name: The op's name.
        frame: The user's code object and instruction; `where` makes it readable.
        creation_trace: Formatted stack lines, kept while anomaly detection is on.
        tape: The implicit tape that recorded this node, if one did.
    """

    __slots__ = ("__weakref__", "_grad", "_others", "call", "creation_trace", "frame", "index",
                 "inputs", "kept", "needs", "number", "op_name", "scalars", "source", "tape",
                 "value", "versions")  # fmt: skip

    value: Tensor  # a slot instead of Operand's property

    def __init__(
        self,
        value: Tensor,
        op_name: str | None = None,
        call: Any = None,
        inputs: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        needs: tuple[bool, ...] = (),
        kept: Any = None,
        versions: tuple[tuple[Tensor, int], ...] = (),
        frame: tuple[CodeType, int] | None = None,
        index: int = 0,
        source: Node | None = None,
    ) -> None:
        self.number = next(_numbers)
        self.value = value
        self.op_name = op_name
        self.call = call
        self.inputs = inputs
        self.scalars = scalars
        self.needs = needs
        self.kept = kept
        self.versions = versions
        self.frame = frame
        self.index = index
        self.source = source
        self.creation_trace: list[str] | None = None if source is None else source.creation_trace
        self.tape: Any = None
        self._grad: Tensor | None = None
        self._others: tuple[weakref.ref[Node], ...] = ()
        if source is not None:
            source._know(self)

    def _know(self, other: Node) -> None:
        """Note another node of a result of the same call, without keeping it alive."""
        self._others += (weakref.ref(other),)

    def share(self, other: Node) -> None:
        """Become the same result of a call as another node."""
        owner = other if other.source is None else other.source
        self.number = next(_numbers)
        self.call, self.index, self.source = other.call, other.index, owner
        self.op_name, self.frame = other.op_name, other.frame
        self.creation_trace = other.creation_trace
        owner._know(self)

    @property
    def is_leaf(self) -> bool:
        """Whether no call made this value (its gradient is kept in `grad`)."""
        return self.call is None

    @property
    def grad_fn(self) -> Callable[..., Sequence[Any]] | None:
        """`(gradient of this value) -> [gradient per input]`; None for a leaf."""
        if self.call is None:
            return None
        node, place = self if self.source is None else self.source, self.index
        count = len(self.call.results or (None,))

        def gradients(grad: Any) -> Sequence[Any]:
            grads = [grad if i == place else None for i in range(count)]
            found: Sequence[Any] = node.call.gradients(node, grads, node.needs)
            return found

        return gradients

    @property
    def parents(self) -> list[Node]:
        """The call's inputs as Nodes, in order."""
        return [leaf_node(x) for x in (self if self.source is None else self.source).inputs]

    def results(self) -> list[Node]:
        """The living nodes of the call's results, itself included; for the record's holder."""
        others = [reference() for reference in self._others]
        return [self, *(each for each in others if each is not None)]

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows through this value."""
        return self.call is not None or self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.call is not None:
            raise GradientError(
                message("requires_grad", f"the result of {self.op_name}", "a leaf", "Use detach()")
            )
        self.value.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Node:
        """Mark a leaf as one that needs a gradient (or not); see `Tensor.requires_grad_`."""
        self.requires_grad = requires_grad
        return self

    def copy_(self, source: Any) -> Node:
        """Overwrite the elements in place; see `Tensor.copy_`."""
        self.value.copy_(source)
        return self

    @property
    def version(self) -> int:
        """How often the data has been changed in place."""
        return self.value.version

    @property
    def grad(self) -> Any:
        """The gradient: of a leaf after backward, of a result under `Tape(retain_grads=True)`."""
        return self.value.grad if self.call is None else self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if self.call is None:
            self.value.grad = value
        else:
            self._grad = value

    @property
    def where(self) -> str:
        """`file:line` of the user's code that made this node."""
        return describe_frame(self.frame)


#: What a gradient belongs to: the identity of a leaf's Tensor or of the node with the record of a
#: call, and the index of the result.
Target: TypeAlias = tuple[int, int]


def origin(operand: Any) -> tuple[Any, int]:
    """The node with the record of the call that made an operand, and which result it is.

    Of a leaf its Tensor, and 0.
    """
    if type(operand) is not Node:
        return operand, 0
    if operand.call is None:
        return operand.value, 0
    return operand if operand.source is None else operand.source, operand.index


def target_of(operand: Any) -> Target:
    """What the gradient of an operand belongs to."""
    owner, index = origin(operand)
    return id(owner), index


def leaf_node(value: Any) -> Node:
    """The Node of an operand: itself, or the one Node that stands for a leaf Tensor."""
    if isinstance(value, Node):
        return value
    node = value.leaf_node() if value.leaf_node is not None else None
    if node is None:
        node = Node(value)
        value.leaf_node = weakref.ref(node)
    return node
