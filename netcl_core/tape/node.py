"""Node: one value of the graph, with the call that made it.

Nodes carry a number that grows with their creation, so the reverse order of the
numbers is a reverse topological order of every graph.
"""

from __future__ import annotations

import itertools
import sys
import traceback
import weakref
from collections.abc import Sequence
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import GradientError, message
from netcl_core.plugins.registry import registry
from netcl_core.tape.frames import describe_frame
from netcl_core.tape.grad_fn import grad_fn_of
from netcl_core.tensors.functions import functions
from netcl_core.tensors.operand import told
from netcl_core.tensors.tensor import MetaTensor, Tensor, meta

# -- what a node has kept for its gradients, once a backward pass has let it go ------------


def walked_before(who: str) -> GradientError:
    """The error for a second walk over a graph whose saved values are gone."""
    return GradientError(
        message(
            who,
            "a graph that was walked before, and whose saved values were freed then",
            "a graph that is walked for the first time",
            "Call the first backward (or grad) with retain_graph=True, or compute the value again",
        )
    )


@final
class _Released(Sequence[Any]):
    """What was kept, once it is freed: to look into it raises GradientError."""

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self
        raise walked_before("backward")

    def __iter__(self) -> Any:
        raise walked_before("backward")

    def __len__(self) -> int:
        return 0

    def __contains__(self, value: object) -> bool:
        return False


RELEASED: Final = _Released()


# -- nodes ---------------------------------------------------------------------------------


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


def user_stack() -> list[str]:
    """The stack down to the user's frame, as formatted lines."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _own[frame.f_globals.get("__name__", "")]:
        frame = frame.f_back
    return traceback.format_stack(frame)


def caller_name() -> str:
    """The name of the function that called `apply_op`."""
    return sys._getframe(2).f_code.co_name


_numbers: Final = itertools.count()


def next_number() -> int:
    """A number above those of all nodes so far."""
    told()  # those whose ops have not run get theirs now
    return next(_numbers)


@final
class Node(Tensor):
    """A tensor of the graph: the result of a call, or a leaf made by `ag.tensor`.

    It has the data of another Tensor, its `value`, and adds which call made it.

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
        frame: The user's code object and instruction; `made_at` makes it readable.
        creation_trace: Formatted stack lines, kept while anomaly detection is on.
        tape: The implicit tape that recorded this node, if one did.
        used: Whether a recorded op has had it as an operand.
        past: What it was before changes in place, each with the number of the change.
    """

    __slots__ = ("_others", "call", "creation_trace", "frame", "index",
                 "inputs", "kept", "needs", "number", "op_name", "past", "scalars", "source",
                 "tape", "used", "value", "versions")  # fmt: skip

    value: Tensor  # a slot instead of Tensor's property
    # What a Tensor holds in slots; getters in C, since every op reads them.
    shape = property(attrgetter("value.shape"))
    dtype = property(attrgetter("value.dtype"))
    device = property(attrgetter("value.device"))
    buffer = property(attrgetter("value.buffer"))

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
        **fields: Any,
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
        self.used = False
        self.past: tuple[tuple[int, Node], ...] = ()
        self._grad: Tensor | None = None
        self._others: tuple[weakref.ref[Node], ...] = ()
        if source is not None:
            source._know(self)
        if fields or callable(op_name):  # `Node(value, grad_fn, parents, ...)`, as it is documented
            functions["fields of a node"](self, op_name, call, **fields)

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

    def former(self) -> Node:
        """Another node that is what this one is now, for when this one becomes something else."""
        former = object.__new__(Node)
        former.take_over(self)
        former._grad, former._others, former.past = self._grad, (), ()
        former.source, former.used = self.source, self.used
        if former.source is not None:
            former.source._know(former)
        if self._others:
            for other in self.others():  # whose record is the former one's from now on
                other.source = former
                former._know(other)
            self._others = ()
        return former

    def leave_record(self) -> Node:
        """Move the record of the call to a node without elements, and return that."""
        record = self.without_elements()
        record.tape = self.tape
        self.inputs, self.scalars, self.needs, self.kept, self.versions = (), (), (), None, ()
        self.source = record
        record._know(self)
        return record

    def without_elements(self) -> Node:
        """Another node of the same result, which holds no elements."""
        other = self.former()
        what = f"result {self.index} of {self.op_name}"
        other.value = meta(self.value.shape, self.value.dtype, self.value.device, what)
        other.tape = other._grad = None
        return other

    def leave(self, former: Node) -> None:
        """Become something else: calls so far have read the former self."""
        if self.used:
            self.past += ((next(_numbers), former),)
        self.used = False

    def settle(self) -> None:
        """Let the inputs of this call be what they were when it was made."""
        if any(type(x) is Node and x.past for x in self.inputs):
            self.inputs = [self._as_it_was(x) for x in self.inputs]

    def _as_it_was(self, x: Any) -> Any:
        past = x.past if type(x) is Node else ()
        return next((former for number, former in past if number > self.number), x)

    def take_over(self, other: Node) -> None:
        """Become what another node is, which nobody else has; its record moves here."""
        self.value, self.number, self.tape = other.value, other.number, other.tape
        self.call, self.index, self.op_name = other.call, other.index, other.op_name
        self.inputs, self.scalars, self.needs = other.inputs, other.scalars, other.needs
        self.kept, self.versions = other.kept, other.versions
        self.frame, self.creation_trace = other.frame, other.creation_trace
        self.source = None

    def release(self) -> None:
        """Let go of what was saved for the gradients, and of the way to it if that was much.

        A call whose gradients read nothing stays as it is, and can be walked again.
        """
        kept, call = self.kept, self.call
        residuals = kept is not None and len(kept) > len(call.results)
        if self.versions or residuals or call.at_result:
            self.inputs, self.kept, self.versions = (), RELEASED, ()
        elif kept is not None:
            self.kept = RELEASED

    def become_constant(self, value: Tensor) -> None:
        """Hold a value that no call made."""
        self.value, self.call, self.source = value, None, None
        self.inputs, self.scalars, self.needs, self.kept, self.versions = (), (), (), None, ()

    @property
    def is_leaf(self) -> bool:
        """Whether no call made this value (its gradient is kept in `grad`)."""
        return self.call is None and not (self.requires_grad and self.value.pending)

    @property
    def grad_fn(self) -> Any:
        """The call that made it: `(gradient of this value) -> [gradient per input]`; else None."""
        if self.value.pending:
            told()
        if self.call is None:
            return None
        return grad_fn_of(self if self.source is None else self.source, self.index)

    def require_saved(self, who: str) -> None:
        """Raise GradientError if what was saved for the gradients has been let go."""
        if not self.inputs:
            raise walked_before(who)

    @property
    def name(self) -> str:
        """What to call it when it is shown: its op, or `leaf`, and when it was made."""
        return f"{self.op_name or 'leaf'}_{self.number}"

    @property
    def parents(self) -> list[Node]:
        """The call's inputs as Nodes, in order; none once a backward pass has let them go."""
        if self.value.pending:
            told()
        node = self if self.source is None else self.source
        node.settle()
        return [leaf_node(x).living() for x in node.inputs]

    def living(self) -> Node:
        """The node of this result that has its elements, if one lives; else itself."""
        if type(self.value) is not MetaTensor:
            return self
        owner = self if self.source is None else self.source
        return next((x for x in owner.results() if x.index == self.index), self)

    def results(self) -> list[Node]:
        """The living nodes of the call's results, itself included; for the record's holder."""
        nodes = [self, *self.others()]
        return [x for x in nodes if type(x.value) is not MetaTensor]

    def others(self) -> list[Node]:
        """The living nodes of the call's results besides the record's holder."""
        others = [reference() for reference in self._others]
        return [x for x in others if x is not None and x.source is self]

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

    # The rest of what a Tensor does with its data, which are those of `value`.
    geometry = property(attrgetter("value.geometry"))
    memory = property(attrgetter("value.memory"))
    is_alias = property(attrgetter("value.is_alias"))
    storage = property(attrgetter("value.storage"))

    version = property(attrgetter("value.version"))
    alias = property(attrgetter("value.alias"))
    copy_into = property(attrgetter("value.copy_into"))
    duplicate = property(attrgetter("value.duplicate"))
    int_range = property(attrgetter("value.int_range"))
    mark_changed = property(attrgetter("value.mark_changed"))
    note_arrival = property(attrgetter("value.note_arrival"))
    overwrite = property(attrgetter("value.overwrite"))
    viewed = property(attrgetter("value.viewed"))

    def __copy__(self) -> Node:
        return self.former()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Of a leaf a copy that is a leaf; what an op made raises GradientError, as in PyTorch."""
        if not self.is_leaf:
            given = f"the result of {self.op_name}"
            raise GradientError(message("deepcopy", given, "a leaf", "Use detach() or clone()"))
        return super().__deepcopy__(memo)

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

    def __repr__(self) -> str:
        return self._told("...") if type(self.value) is MetaTensor else super().__repr__()

    def _facts(self) -> list[str]:
        facts = super()._facts()
        return facts if self.call is None else [*facts[:3], f"grad_fn=<{self.op_name}>"]

    @property
    def made_at(self) -> str:
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
        if operand.graph is None:
            return operand, 0
        operand = operand.graph
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
    if value.graph is not None:
        recorded: Node = value.graph
        return recorded
    node = value.leaf_node() if value.leaf_node is not None else None
    if node is None:
        node = Node(value)
        value.leaf_node = weakref.ref(node)
    return node
