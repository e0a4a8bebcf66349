"""A tape's graph for drawing: what is read far below stands there again, so that no edge is long.

A weight that five hundred steps read would else take five hundred lines beside one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, final

from netcl_plugin_tools.graph.drawing import Edge
from netcl_plugin_tools.graph.tape_graph import TapeBox, TapeGraph

#: How many rows further down than its first readers another may stand that reads from the same box.
_FAR: Final = 12
#: The same for a value that is read in more rows than these.
_NEAR: Final = 0
_MANY: Final = 4


def repeated(graph: TapeGraph) -> TapeGraph:
    """The same graph with a further box where a value is read far below its own.

    What was given is drawn again; of what a call made, a box tells the call.
    """
    return _Repeater(graph).repeated()


@final
class _Repeater:
    def __init__(self, graph: TapeGraph) -> None:
        self.graph = graph
        self.rows = _rows(graph)
        self.numbers = itertools.count(1)  # of the further boxes
        self.sources: dict[int, str] = {}  # the new source of an edge, by its number
        self.before: dict[str, list[TapeBox]] = {}  # what is to stand before a box
        self.left: set[str] = set()  # whose values are also read from another box

    def repeated(self) -> TapeGraph:
        edges = self.graph.edges
        readings: dict[tuple[str, str], list[int]] = {}
        for number, edge in enumerate(edges):
            readings.setdefault((edge.source, edge.value), []).append(number)
        boxes = {box.id: box for box in self.graph.boxes}
        for (source, value), numbers in readings.items():
            self._place(boxes[source], value, sorted(numbers, key=self._row))
        return replace(
            self.graph,
            boxes=tuple(self._all_boxes()),
            edges=tuple(
                replace(edge, source=self.sources.get(number, edge.source))
                for number, edge in enumerate(edges)
            ),
        )

    def _row(self, number: int) -> int:
        """The row of the box that an edge leads to."""
        return self.rows[self.graph.edges[number].target]

    def _place(self, box: TapeBox, value: str, numbers: Sequence[int]) -> None:
        """Give the readers of a value, from the upmost on, a box that is near."""
        rows = [self._row(number) for number in numbers]
        far = _NEAR if len(set(rows)) > _MANY else _FAR
        top = min(rows[0], self.rows[box.id] + _FAR) if box.ops else rows[0]
        key = box.id
        for number, row in zip(numbers, rows, strict=True):
            if row > top + far:
                top, key = row, f"{box.id}-{next(self.numbers)}"
                copy = _pointer(box, key, value) if box.ops else replace(box, id=key)
                self.before.setdefault(self.graph.edges[number].target, []).append(copy)
            self.sources[number] = key
        if key != box.id and box.ops:
            self.left.add(box.id)

    def _all_boxes(self) -> Iterator[TapeBox]:
        for box in self.graph.boxes:
            yield from self.before.get(box.id, ())
            if box.id in self.left:
                said = [*filter(None, [box.note]), "Also read further down"]
                yield replace(box, note=". ".join(said))
            else:
                yield box


def _pointer(box: TapeBox, key: str, value: str) -> TapeBox:
    return TapeBox(key, "above", value, note=f"made above by {box.title}")


def _rows(graph: TapeGraph) -> dict[str, int]:
    """How many boxes stand above each one at least."""
    rows = dict.fromkeys((box.id for box in graph.boxes), 0)
    arriving: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        arriving.setdefault(edge.target, []).append(edge)
    for key in rows:
        sources = [rows[edge.source] for edge in arriving.get(key, ())]
        rows[key] = max(sources, default=-1) + 1
    return rows
