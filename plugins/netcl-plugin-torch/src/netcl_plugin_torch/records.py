"""netcl's record of a call, which PyTorch keeps for the gradients of an op."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.inspect.recorded import OperatorCall, RegionCall, recorded_again


def recorded(
    function: Callable[..., Any], raws: Sequence[Any], wanted: Sequence[bool] | None = None
) -> tuple[Any, list[Any]]:
    """`function(*raws)` with netcl's record of it, and the leaves of that record.

    `wanted` says which tensors are to have gradients; None: all of floating numbers.
    """
    leaves = [None if x is None else x.detach() for x in raws]
    for i, leaf in enumerate(leaves):
        if leaf is None or not DTYPES[leaf.dtype].floating:
            continue
        if wanted is None or (i < len(wanted) and wanted[i]):
            leaf.requires_grad_()
    with ag.enable_grad(), ag.Tape():  # its graph lets go of nothing
        return function(*leaves), leaves


class Record(ABC):
    """The operands of a call, and what PyTorch's op has as further results.

    Attributes:
        name: The call's; None: no gradient will be asked for.
    """

    __slots__ = ("_version", "name")

    name: Any
    _version: int

    @property
    @abstractmethod
    def leaves(self) -> Sequence[Any]:
        """The operands; None for one that is absent."""

    def statistic(self, i: int) -> Any:
        """A further result, computed if somebody reads it."""
        first = self.leaves[0]
        if first.value.version != self._version:
            raise RuntimeError("a statistic was read after its operand had changed in place")
        return self._statistic(i)

    @abstractmethod
    def _statistic(self, i: int) -> Any:
        """The same of unchanged operands."""

    @abstractmethod
    def gradients(self, grad: Any, wanted: Sequence[bool]) -> list[Any]:
        """Of each operand the gradient, or None, from that of the first result."""

    @abstractmethod
    def anew(self) -> Record:
        """The same without what has been computed of it."""

    @abstractmethod
    def tensors(self) -> Sequence[Any]:
        """All tensors that it holds, once each.

        Raises TypeError for a record that holds anything else.
        """

    @abstractmethod
    def recipe(self) -> Recipe:
        """What makes the record of the same call for other tensors."""

    @abstractmethod
    def with_graph(self) -> NetclRecord:
        """The same with netcl's graph."""


@final
class NetclRecord(Record):
    """A call's results and the leaves of its graph.

    Attributes:
        outputs: The results: a Node, or a tuple of them; None: no gradient will be asked for.

    Args:
        leaves: The operands.
        statistics: Gives the further results of the operands.
    """

    __slots__ = ("_leaves", "_of_operands", "_statistics", "_tensors", "outputs")

    def __init__(self, outputs: Any, leaves: Sequence[Any], statistics: Callable[..., Any]) -> None:
        self.name = None if outputs is None else getattr(outputs, "op_name", "several")
        self.outputs, self._leaves, self._of_operands = outputs, leaves, statistics
        self._version = leaves[0].version
        self._statistics: Any = None
        self._tensors: Sequence[Any] | None = None

    @property
    def leaves(self) -> Sequence[Any]:
        return self._leaves

    def _statistic(self, i: int) -> Any:
        if self._statistics is None:
            operands = [None if leaf is None else leaf.value.detach() for leaf in self._leaves]
            with ag.no_grad():
                self._statistics = list(self._of_operands(*operands))
        return self._statistics[i]

    def gradients(self, grad: Any, wanted: Sequence[bool]) -> list[Any]:
        leaves = self._leaves
        places = [i for i, want in enumerate(wanted) if want and leaves[i] is not None]
        gradients: list[Any] = [None] * len(leaves)
        with ag.enable_grad():
            parts = ag.grad(self.outputs, [leaves[i] for i in places], grad, retain_graph=True,
                            allow_unused=True)  # fmt: skip
        for i, part in zip(places, parts, strict=True):
            gradients[i] = part
        return gradients

    def anew(self) -> Record:
        return NetclRecord(self.outputs, self._leaves, self._of_operands)

    def with_graph(self) -> NetclRecord:
        return self

    def tensors(self) -> Sequence[Any]:
        if self._tensors is None:
            by_id: dict[int, Any] = {}
            for x in _graph(self.outputs, self._leaves):
                if type(x) is not ag.Node:
                    by_id[id(x)] = x
            self._tensors = list(by_id.values())
        return self._tensors

    def recipe(self) -> Recipe:
        places = {id(x): i for i, x in enumerate(self.tensors())}
        nothing = Tensor(None, (0,), self._leaves[0].dtype, self._leaves[0].device)
        calls: list[Any] = []  # with the places of their tensors, and behind these of nodes
        for x in _graph(self.outputs, self._leaves):
            if type(x) is ag.Node:
                kept = None if x.kept is None else [places[id(y)] for y in x.kept]
                inputs = [places[id(y)] for y in x.inputs]
                source = None if x.source is None else places[id(x.source)]
                versions = [places[id(y)] for y, _ in x.versions]
                bare = recorded_again(x, nothing, (), None, (), None)  # which holds no memory
                calls.append((bare, places[id(x.value)], inputs, kept, versions, source))
                places[id(x)] = len(places)
        several, leaves = isinstance(self.outputs, tuple), self._leaves
        outputs = self.outputs if several else () if self.outputs is None else (self.outputs,)
        results = [places[id(x)] for x in outputs]
        marked = [places[id(x)] for x in leaves if x is not None and x.requires_grad]
        operands = [None if x is None else places[id(x)] for x in leaves]
        statistics = self._of_operands

        def make(others: Sequence[Any]) -> NetclRecord:
            every = list(others)
            for place in marked:
                every[place].requires_grad_()
            for x, value, inputs, kept, versions, source in calls:
                every.append(recorded_again(
                    x, every[value], [every[i] for i in inputs],
                    None if kept is None else [every[i] for i in kept],
                    [every[i] for i in versions], None if source is None else every[source],
                ))  # fmt: skip
            made = tuple([every[i] for i in results])
            of_call = made if several else made[0] if made else None
            record = NetclRecord(
                of_call, [None if i is None else every[i] for i in operands], statistics
            )
            record._tensors = others
            return record

        return Recipe(self.name, operands, make)


@final
class Recipe:
    """What makes the record of one call for other tensors, in the order of `Record.tensors`.

    Attributes:
        name: The record's.
        leaves: Which of the tensors each operand is; None for one that is absent.
        make: Makes a record of tensors, some of which it marks as leaves.
    """

    __slots__ = ("leaves", "make", "name")

    def __init__(
        self, name: Any, leaves: Sequence[int | None], make: Callable[[Sequence[Any]], NetclRecord]
    ) -> None:
        self.name, self.leaves, self.make = name, leaves, make


@final
class RecordAgain(Record):
    """The record of a call that was done again, which is made if somebody asks for gradients.

    Args:
        form: What makes it; the gradients depend on nothing else besides the tensors.
        tensors: Those of the record.
    """

    __slots__ = ("_record", "_tensors", "form")

    def __init__(self, form: Recipe, tensors: Sequence[Any]) -> None:
        self.form, self.name, self._tensors = form, form.name, tensors
        first = form.leaves[0]
        assert first is not None  # the operand that the statistics are of
        self._version = tensors[first].version
        self._record: NetclRecord | None = None

    @property
    def leaves(self) -> Sequence[Any]:
        return [None if i is None else self._tensors[i] for i in self.form.leaves]

    @property
    def walked(self) -> bool:
        """Whether netcl's graph was asked, which may have given away what it kept."""
        return self._record is not None

    def with_graph(self) -> NetclRecord:
        if self._record is None:
            self._record = self.form.make([x.detach() for x in self._tensors])
        return self._record

    def _statistic(self, i: int) -> Any:
        return self.with_graph()._statistic(i)

    def gradients(self, grad: Any, wanted: Sequence[bool]) -> list[Any]:
        return self.with_graph().gradients(grad, wanted)

    def anew(self) -> Record:
        return RecordAgain(self.form, self._tensors)

    def tensors(self) -> Sequence[Any]:
        return self._tensors

    def recipe(self) -> Recipe:
        return self.form


def _graph(outputs: Any, leaves: Sequence[Any]) -> list[Any]:
    """The tensors of a graph, and its nodes after those that they were made of."""
    behind: list[Any] = []
    seen: set[int] = set()

    def visit(x: Any) -> None:
        if x is None or id(x) in seen:
            return
        if not isinstance(x, Tensor):
            raise TypeError(f"a record with a {type(x).__name__}")
        seen.add(id(x))
        if type(x) is ag.Node:
            if not isinstance(x.call, (OperatorCall, RegionCall, type(None))):
                raise TypeError(f"a record of a {type(x.call).__name__}")
            others = (x.value, x.source, *x.inputs, *(x.kept or ()), *[y for y, _ in x.versions])
            for other in others:
                visit(other)
        behind.append(x)

    for operand in (*leaves, *(outputs if isinstance(outputs, tuple) else (outputs,))):
        visit(operand)
    return behind
