"""netcl's record of a call, which PyTorch keeps for the gradients of an op."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.inspect.recorded import OperatorCall, RegionCall, recorded_again
from netcl_plugin_torch.calls import KnownCall


class Record(ABC):
    """The operands of a call, and what PyTorch's op has as further results.

    Attributes:
        leaves: The operands; None for one that is absent.
        statistics: Gives these results of the operands.
        name: The call's; None: no gradient will be asked for.
    """

    __slots__ = ("_statistics", "_version", "leaves", "name", "statistics")

    def __init__(self, name: Any, leaves: Sequence[Any], statistics: Callable[..., Any]) -> None:
        self.name, self.leaves, self.statistics = name, leaves, statistics
        self._version = leaves[0].version
        self._statistics: Any = None

    def statistic(self, i: int) -> Any:
        """A further result, computed if somebody reads it."""
        if self._statistics is None:
            x = self.leaves[0].value
            if x.version != self._version:
                raise RuntimeError("a statistic was read after its operand had changed in place")
            operands = [None if leaf is None else leaf.value.detach() for leaf in self.leaves]
            with ag.no_grad():
                self._statistics = list(self.statistics(*operands))
        return self._statistics[i]

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
    def recipe(self) -> Callable[[Sequence[Any]], Record]:
        """What makes the record of the same call for other tensors, in the order of `tensors`."""


@final
class CallRecord(Record):
    """A known call with what it keeps for its gradients.

    Args:
        kept: As the call gave it; None: no gradient will be asked for.
    """

    __slots__ = ("_call", "_kept")

    def __init__(
        self, call: KnownCall, leaves: Sequence[Any], kept: Any, statistics: Callable[..., Any]
    ) -> None:
        super().__init__(None if kept is None else call.call.name, leaves, statistics)
        self._call, self._kept = call, kept

    def gradients(self, grad: Any, wanted: Sequence[bool]) -> list[Any]:
        return self._call.gradients(self.leaves, self._kept, grad, wanted)

    def anew(self) -> Record:
        return CallRecord(self._call, self.leaves, self._kept, self.statistics)

    def tensors(self) -> Sequence[Any]:
        both = (*self.leaves, *(self._kept or ()))
        return list({id(x): x for x in both if x is not None}.values())

    def recipe(self) -> Callable[[Sequence[Any]], Record]:
        places = {id(x): i for i, x in enumerate(self.tensors())}
        leaves = [None if x is None else places[id(x)] for x in self.leaves]
        kept = self._kept and [None if x is None else places[id(x)] for x in self._kept]
        call, statistics = self._call, self.statistics

        def make(others: Sequence[Any]) -> Record:
            chosen = kept and [None if i is None else others[i] for i in kept]
            operands = [None if i is None else others[i] for i in leaves]
            return CallRecord(call, operands, chosen, statistics)

        return make


@final
class NetclRecord(Record):
    """A call's results and the leaves of its graph.

    Attributes:
        made: The results: a Node, or a tuple of them; None: no gradient will be asked for.
    """

    __slots__ = ("_tensors", "made")

    def __init__(self, outputs: Any, leaves: Sequence[Any], statistics: Callable[..., Any]) -> None:
        name = None if outputs is None else getattr(outputs, "op_name", "several")
        super().__init__(name, leaves, statistics)
        self.made = outputs
        self._tensors: Sequence[Any] | None = None

    def gradients(self, grad: Any, wanted: Sequence[bool]) -> list[Any]:
        leaves = self.leaves
        places = [i for i, want in enumerate(wanted) if want and leaves[i] is not None]
        gradients: list[Any] = [None] * len(leaves)
        with ag.enable_grad():
            parts = ag.grad(self.made, [leaves[i] for i in places], grad, retain_graph=True,
                            allow_unused=True)  # fmt: skip
        for i, part in zip(places, parts, strict=True):
            gradients[i] = part
        return gradients

    def anew(self) -> Record:
        return NetclRecord(self.made, self.leaves, self.statistics)

    def tensors(self) -> Sequence[Any]:
        if self._tensors is None:
            by_id: dict[int, Any] = {}
            for x in _graph(self.made, self.leaves):
                if type(x) is not ag.Node:
                    by_id[id(x)] = x
            self._tensors = list(by_id.values())
        return self._tensors

    def recipe(self) -> Callable[[Sequence[Any]], Record]:
        places = {id(x): i for i, x in enumerate(self.tensors())}
        calls: list[Any] = []  # with the places of their tensors, and behind these of nodes
        for x in _graph(self.made, self.leaves):
            if type(x) is ag.Node:
                kept = None if x.kept is None else [places[id(y)] for y in x.kept]
                inputs = [places[id(y)] for y in x.inputs]
                source = None if x.source is None else places[id(x.source)]
                versions = [places[id(y)] for y, _ in x.versions]
                calls.append((x, places[id(x.value)], inputs, kept, versions, source))
                places[id(x)] = len(places)
        several, wanted = isinstance(self.made, tuple), self.leaves
        results = [places[id(x)] for x in (self.made if several else (self.made,))]
        leaves = [None if x is None else (places[id(x)], x.requires_grad) for x in wanted]
        statistics = self.statistics

        def make(others: Sequence[Any]) -> Record:
            all_ = list(others)
            for leaf in leaves:
                if leaf is not None and leaf[1]:
                    all_[leaf[0]].requires_grad_()
            for x, value, inputs, kept, versions, source in calls:
                all_.append(recorded_again(
                    x, all_[value], [all_[i] for i in inputs],
                    None if kept is None else [all_[i] for i in kept],
                    [all_[i] for i in versions], None if source is None else all_[source],
                ))  # fmt: skip
            outputs = tuple([all_[i] for i in results]) if several else all_[results[0]]
            operands = [None if leaf is None else all_[leaf[0]] for leaf in leaves]
            record = NetclRecord(outputs, operands, statistics)
            record._tensors = others
            return record

        return make


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
