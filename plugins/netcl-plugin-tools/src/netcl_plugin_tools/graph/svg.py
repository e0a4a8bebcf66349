"""A graph as SVG: the texts in their boxes, the layout around them, and the template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core.runtime.rendering import render
from netcl_plugin_tools.graph import text
from netcl_plugin_tools.graph.drawing import KINDS, Drawing, DrawnBox, Edge
from netcl_plugin_tools.graph.layout import BoxPlace, GraphLayout, Link, layout

TEMPLATE: Final = "core/graph/graph.svg.j2"

_MARGIN: Final = 20.0
_PAD: Final = 10.0  # between a box and its texts
_BETWEEN: Final = 18.0  # between two columns of ops
_SIZES: Final = {"name": 18.0, "lead": 12.0, "key": 11.0,
                 "title": 12.0, "op": 12.0, "note": 11.0, "label": 10.5}  # fmt: skip
_LEADING: Final = 1.45
_NARROWEST: Final = 460.0
_LONGEST: Final = 48  # cells of a line in a box
_FOLD: Final = 34  # cells of a line of a note
_ROWS: Final = 20  # ops in one column


@final
@dataclass(frozen=True, slots=True)
class Text:
    """A line of text: its left end, its base line, and how it looks; `full` if it was cut."""

    style: str
    text: str
    x: float
    y: float
    full: str = ""

    @property
    def width(self) -> float:
        """How wide it is at most."""
        return text.width(self.text, _SIZES[self.style])


@final
@dataclass(frozen=True, slots=True)
class Panel:
    """The texts of a box, from its upper left corner, and its size."""

    texts: tuple[Text, ...]
    width: float
    height: float


def to_svg(graph: Drawing) -> str:
    """The drawing of a graph; the same graph gives the same text."""
    panels = {box.id: _panel(box) for box in graph.boxes}
    labels = [_label(edge) for edge in graph.edges]
    found = layout(
        {key: (panel.width, panel.height) for key, panel in panels.items()},
        [
            Link(edge.source, edge.target, (label.width, label.height))
            for edge, label in zip(graph.edges, labels, strict=True)
        ],
    )
    width = max(found.width, _NARROWEST)
    head, keys, top = _head(graph, width)
    left = _MARGIN + (width - found.width) / 2
    return render(
        TEMPLATE,
        width=_round(width + 2 * _MARGIN),
        height=_round(top + found.height + _MARGIN),
        sizes=_SIZES,
        heading=text.clean(graph.heading),
        description=text.clean(" ".join(graph.summary)),
        head=_moved(head, _MARGIN, _MARGIN),
        keys=[{**key, "x": _round(key["x"] + _MARGIN), "y": _round(key["y"] + _MARGIN),
               "text": _moved([key["text"]], _MARGIN, _MARGIN)[0]} for key in keys],
        boxes=[_box(box, panels[box.id], found.boxes[box.id], left, top) for box in graph.boxes],
        edges=_edges(graph, found, labels, left, top),
    )  # fmt: skip


# -- boxes -------------------------------------------------------------------------------


def _panel(box: DrawnBox) -> Panel:
    """A title, the ops in columns, and a note, one below the other."""
    texts: list[Text] = []
    y = _PAD
    y = _add(texts, "title", _PAD, y, box.title)
    if box.ops:
        y = _add_ops(texts, y + 2, box)
    for line in text.fold(box.remark, _FOLD):
        y = _add(texts, "note", _PAD, y, line)
    width = max(each.x + each.width for each in texts) + _PAD
    return Panel(tuple(texts), width, y + _PAD - 4)


def _add(texts: list[Text], style: str, x: float, y: float, line: str) -> float:
    """Append a line below `y`, shortened if need be; returns where the next one begins."""
    line = text.clean(line)
    size, short = _SIZES[style], text.shorten(line, _LONGEST)
    texts.append(Text(style, short, x, y + size, line if short != line else ""))
    return y + size * _LEADING


def _add_ops(texts: list[Text], top: float, box: DrawnBox) -> float:
    lines = [f"{op.value} = {op.text}" for op in box.ops]
    columns = math.ceil(len(lines) / _ROWS)
    rows = math.ceil(len(lines) / columns)
    x, bottom = _PAD, top
    for first in range(0, len(lines), rows):
        column: list[Text] = []
        y = top
        for line in lines[first : first + rows]:
            y = _add(column, "op", x, y, line)
        x = max(each.x + each.width for each in column) + _BETWEEN
        bottom = max(bottom, y)
        texts += column
    return bottom


def _box(box: DrawnBox, panel: Panel, place: BoxPlace, left: float, top: float) -> dict[str, Any]:
    x, y = left + place.x - place.width / 2, top + place.y
    return {
        "id": box.id,
        "kind": box.kind,
        "tooltip": text.clean(_tooltip(box)),
        **_frame(x, y, panel),
        "texts": _moved(panel.texts, x, y),
    }


def _tooltip(box: DrawnBox) -> str:
    lines = [f"{box.title}: {box.remark}"]
    for op in box.ops:
        lines += [f"{op.value} = {op.text}: {op.dtype}{list(op.shape)}", f"    {op.source}"]
    return "\n".join(lines)


# -- edges -------------------------------------------------------------------------------


def _label(edge: Edge) -> Panel:
    line = text.clean(f"{edge.value}: {edge.dtype}{list(edge.shape)}")
    short = text.shorten(line, _LONGEST)
    size = _SIZES["label"]
    label = Text("label", short, 4.0, size + 1, line if short != line else "")
    return Panel((label,), label.width + 8, size * _LEADING)


def _edges(
    graph: Drawing, found: GraphLayout, labels: Sequence[Panel], left: float, top: float
) -> list[dict[str, Any]]:
    edges = []
    for edge, path, panel, place in zip(
        graph.edges, found.paths, labels, found.labels, strict=True
    ):
        x, y = left + place.x - place.width / 2, top + place.y
        edges.append(
            {
                "source": edge.source,
                "target": edge.target,
                "path": _curve([(left + px, top + py) for px, py in path]),
                "label": {**_frame(x, y, panel), "texts": _moved(panel.texts, x, y)},
            }
        )
    return edges


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Straight down within rows, an S between two."""
    x, y = points[0]
    parts = [f"M{_round(x)} {_round(y)}"]
    for i, (to_x, to_y) in enumerate(points[1:]):
        if i % 2 == 0 or to_x == x:
            parts.append(f"L{_round(to_x)} {_round(to_y)}")
        else:
            half = _round((y + to_y) / 2)
            parts.append(f"C{_round(x)} {half} {_round(to_x)} {half} {_round(to_x)} {_round(to_y)}")
        x, y = to_x, to_y
    return "".join(parts)


# -- the head ----------------------------------------------------------------------------


def _head(graph: Drawing, width: float) -> tuple[list[Text], list[dict[str, Any]], float]:
    """The name, the summary, the colours with their meaning; and where the graph begins."""
    texts: list[Text] = []
    cells = int(width / text.width("x", _SIZES["name"]))
    name = text.clean(graph.heading)
    texts.append(Text("name", text.shorten(name, cells), 0.0, _SIZES["name"], name))
    y = _SIZES["name"] * _LEADING + 4
    cells = int(width / text.width("x", _SIZES["lead"]))
    for sentence in graph.summary:
        for line in text.fold(sentence, cells):
            y += _SIZES["lead"] * _LEADING
            texts.append(Text("lead", line, 0.0, y))
    used = {box.kind for box in graph.boxes}
    keys, bottom = _keys([kind for kind in KINDS if kind in used], y + 12, width)
    return texts, keys, _MARGIN + bottom + 24


def _keys(kinds: Sequence[str], top: float, width: float) -> tuple[list[dict[str, Any]], float]:
    """A square and a name per kind, in as many lines as the width asks for."""
    side, found = _SIZES["key"], []
    x, y = 0.0, top
    for kind in kinds:
        label = Text("key", KINDS[kind], x + side + 5, y + side - 1)
        if x and label.x + label.width > width:
            x, y = 0.0, y + side * 1.7
            label = Text("key", KINDS[kind], x + side + 5, y + side - 1)
        found.append({"kind": kind, "x": x, "y": y, "side": side, "text": label})
        x = label.x + label.width + 14
    return found, y + side


def _frame(x: float, y: float, panel: Panel) -> dict[str, float]:
    return {
        "x": _round(x),
        "y": _round(y),
        "width": _round(panel.width),
        "height": _round(panel.height),
    }


def _moved(texts: Sequence[Text], x: float, y: float) -> list[Text]:
    return [
        Text(each.style, each.text, _round(each.x + x), _round(each.y + y), each.full)
        for each in texts
    ]


def _round(number: float) -> float:
    """To a tenth of a pixel, so that equal graphs give equal texts."""
    return round(number + 0.0, 1)
