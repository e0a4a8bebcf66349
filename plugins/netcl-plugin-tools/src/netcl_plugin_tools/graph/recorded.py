"""What a tape recorded, as a graph: the values, and the calls that made some from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

from netcl_core.autograd import Node
from netcl_core.inspect.recorded import Target, leaf_node, origin, target_of


@final
@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One call: the node with its record, and the values that it read and made.

    An input that was given twice is there twice. Of the results there are those that some node
    stands for.
    """

    record: Node
    inputs: tuple[Target, ...]
    results: tuple[Target, ...]


@final
@dataclass(frozen=True, slots=True)
class RecordedGraph:
    """Calls in the order in which they were made, and a node for each value of theirs.

    A value that none of the calls made is a leaf, a constant, or was recorded elsewhere.
    """

    values: Mapping[Target, Node]
    calls: tuple[RecordedCall, ...]


def recorded_graph(nodes: Iterable[Node]) -> RecordedGraph:
    """The graph of recorded nodes, whatever their order."""
    records: dict[int, Node] = {}
    values: dict[Target, Node] = {}
    for node in sorted(nodes, key=_made):
        record = origin(node)[0]
        records[id(record)] = record
        for x in record.inputs:
            values.setdefault(target_of(x), leaf_node(x))
        values.setdefault(target_of(node), node)
    results: dict[int, list[Target]] = {key: [] for key in records}
    for target in values:
        if target[0] in results:
            results[target[0]].append(target)
    calls = [
        RecordedCall(record, tuple(map(target_of, record.inputs)), tuple(sorted(results[key])))
        for key, record in records.items()
    ]
    return RecordedGraph(values, tuple(calls))


def nodes_behind(result: Node) -> list[Node]:
    """The recorded nodes that a value was computed from, itself included, earliest first."""
    nodes: dict[Target, Node] = {}
    waiting: list[Any] = [result]
    while waiting:
        x = waiting.pop()
        if type(x) is Node and x.call is not None and target_of(x) not in nodes:
            nodes[target_of(x)] = x
            waiting += origin(x)[0].inputs
    return sorted(nodes.values(), key=_made)


def _made(node: Node) -> int:
    """When the call of a node was made."""
    number: int = origin(node)[0].number
    return number
