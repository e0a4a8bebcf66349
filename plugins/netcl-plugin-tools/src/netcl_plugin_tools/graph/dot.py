"""A graph in Graphviz' language DOT, and the drawing that Graphviz makes of it."""

from __future__ import annotations

import html
import math
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Final

from netcl_core.errors import MissingExtraError, message
from netcl_plugin_tools.graph.drawing import KINDS, Edge
from netcl_plugin_tools.graph.graph import Box, DrawnGraph
from netcl_plugin_tools.graph.tape_graph import TapeBox, TapeGraph

#: Fill and line of each kind of box, on a light page and on a dark one.
COLOURS: Final = {
    "region": ("#dbeafe", "#2563eb", "#172554", "#60a5fa"),
    "operator": ("#dcfce7", "#15803d", "#052e16", "#4ade80"),
    "op": ("#fef3c7", "#b45309", "#451a03", "#fbbf24"),
    "view": ("#f3f4f6", "#6b7280", "#1f2937", "#9ca3af"),
    "argument": ("white", "#475569", "#0b1120", "#94a3b8"),
    "leaf": ("#ccfbf1", "#0f766e", "#042f2e", "#2dd4bf"),
    "elsewhere": ("white", "#475569", "#0b1120", "#94a3b8"),
    "above": ("white", "#b45309", "#0b1120", "#fbbf24"),
    "constant": ("#f3e8ff", "#7e22ce", "#2e1065", "#c084fc"),
    "result": ("#ffe4e6", "#be123c", "#4c0519", "#fb7185"),
}
#: The page, texts, what is said beside them, and lines, on a light page and on a dark one.
_PAGE, _TEXT = ("white", "#0b1120"), ("#111827", "#e5e7eb")
_NOTE, _LINE = ("#475569", "#cbd5e1"), ("#64748b", "#94a3b8")
_DASHED: Final = ("view", "elsewhere", "above")
_LONGEST: Final = 48  # cells of a line
_FOLD: Final = 34  # cells of a line of a note
_ROWS: Final = 20  # ops in one column
_HEAD: Final = f"""digraph {{
graph [bgcolor="{_PAGE[0]}", fontname="DejaVu Sans Mono,monospace", fontcolor="{_TEXT[0]}",
       pad=0.25, nodesep=0.3, ranksep=0.28, labelloc=t, labeljust=l]
node [shape=box, fontname="DejaVu Sans Mono,monospace", fontsize=12, fontcolor="{_TEXT[0]}",
      margin="0.1,0.06", penwidth=1.4]
edge [fontname="DejaVu Sans Mono,monospace", fontsize=10.5, fontcolor="{_NOTE[0]}",
      color="{_LINE[0]}", arrowsize=0.8, penwidth=1.3]"""


def to_dot(graph: DrawnGraph | TapeGraph) -> str:
    """The text of a graph; the same graph gives the same text."""
    read = {edge.target for edge in graph.edges}
    return "\n".join(
        [
            _HEAD,
            f"label=<{_table(_title(graph))}>",
            *map(_box, graph.boxes),
            *(_edge(edge, edge.source in read) for edge in graph.edges),
            "}\n",
        ]
    )


def to_svg(graph: DrawnGraph | TapeGraph) -> str:
    """The drawing of a graph.

    Raises MissingExtraError if there is nothing to draw it with, OSError if there is no room for
    the temporary file by which Graphviz is given it.
    """
    try:
        pygraphviz = import_module("pygraphviz")
    except ImportError as error:
        given = "drawings are made by pygraphviz, which is not installed"
        remedy = "Run `pip install 'netcl-plugin-tools[graph]'`; --dot needs nothing"
        raise MissingExtraError(message("netcl graph", given, "", remedy)) from error
    with pygraphviz.AGraph(string=to_dot(graph)) as drawn:
        svg: str = drawn.draw(format="svg", prog="dot").decode()
    opening, _, rest = svg[svg.index("<svg") :].partition(">")
    opening = re.sub(r'"(\d+)pt"', r'"\1"', opening)  # a font's size of 12 is one of pixels
    about = [
        f'<title id="heading">{_escaped(graph.heading)}</title>',
        f'<desc id="description">{_escaped(" ".join(graph.summary))}</desc>',
        f"<style>\n{_style()}</style>",
    ]
    return "\n".join([f'{opening} role="img" aria-labelledby="heading description">', *about, rest])


def _style() -> str:
    """What a dark page changes: each colour for its counterpart."""
    fills = [_PAGE, _TEXT, _NOTE, _LINE, *((row[0], row[2]) for row in COLOURS.values())]
    lines = [_LINE, *((row[1], row[3]) for row in COLOURS.values())]
    rules = [f'.graph [fill="{light}"] {{ fill: {dark}; }}\n' for light, dark in fills]
    rules += [f'.graph [stroke="{light}"] {{ stroke: {dark}; }}\n' for light, dark in lines]
    dark = "".join(dict.fromkeys(rules))
    return f"text {{ white-space: pre; }}\n@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


# -- parts of the text -------------------------------------------------------------------


def _title(graph: DrawnGraph | TapeGraph) -> Iterator[str]:
    """The name, the summary, and the colours with their meaning."""
    yield f'<TD ALIGN="LEFT"><B>{_font(_line(graph.heading), 18)}</B></TD>'
    for sentence in graph.summary:
        for line in fold(sentence, 2 * _FOLD):
            yield f'<TD ALIGN="LEFT">{_font(line, 12)}</TD>'
    used = {box.kind for box in graph.boxes}
    keys = "".join(_key(kind, name) for kind, name in KINDS.items() if kind in used)
    if keys:
        yield f'<TD ALIGN="LEFT">{_table([keys], 4)}</TD>'


def _key(kind: str, name: str) -> str:
    fill, line, *_ = COLOURS[kind]
    square = f'BORDER="1" FIXEDSIZE="TRUE" WIDTH="12" HEIGHT="12" BGCOLOR="{fill}" COLOR="{line}"'
    return f"<TD {square}></TD><TD>{_font(name, 11)}</TD>"


def _box(box: Box | TapeBox) -> str:
    """A title, the ops in columns, and a note, one below the other."""
    fill, line, *_ = COLOURS[box.kind]
    ops = [_line(f"{op.value} = {op.text}") for op in box.ops]
    columns = max(1, math.ceil(len(ops) / _ROWS))
    rows = math.ceil(len(ops) / columns)
    span = f'ALIGN="LEFT" COLSPAN="{columns}"'
    lines = [f"<TD {span}><B>{_escaped(_line(box.title))}</B></TD>"]
    for first in range(rows):
        row = ops[first::rows]
        lines.append("".join(f'<TD ALIGN="LEFT">{_escaped(op)}</TD>' for op in row))
    lines += [f"<TD {span}>{_font(note, 11, _NOTE[0])}</TD>" for note in fold(box.remark, _FOLD)]
    attributes = {
        "id": _quoted(box.id),
        "class": _quoted(box.kind),
        "tooltip": _quoted(_tooltip(box)),
        "style": '"filled,rounded,dashed"' if box.kind in _DASHED else '"filled,rounded"',
        "fillcolor": _quoted(fill),
        "color": _quoted(line),
        "label": f"<{_table(lines)}>",
    }
    return f"{_quoted(box.id)} [{', '.join(f'{name}={text}' for name, text in attributes.items())}]"


def _tooltip(box: Box | TapeBox) -> str:
    lines = [f"{box.title}: {box.remark}"]
    for op in box.ops:
        lines += [f"{op.value} = {op.text}: {op.dtype}{list(op.shape)}", f"    {op.source}"]
    return "\n".join(lines)


def _edge(edge: Edge, computed: bool) -> str:
    """An arrow with its value; what was computed runs straight down, what was given gives way."""
    text = f"{edge.value}: {edge.dtype}{list(edge.shape)}"
    label = _table([f"<TD>{_escaped(_line(text))}</TD>"], 3)
    attributes = f"weight={8 if computed else 1}, labeltooltip={_quoted(text)}, label=<{label}>"
    return f"{_quoted(edge.source)} -> {_quoted(edge.target)} [{attributes}]"


def _table(rows: Iterable[str], padding: int = 2) -> str:
    body = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLSPACING="0" CELLPADDING="{padding}">{body}</TABLE>'


def _font(line: str, size: int, colour: str = _TEXT[0]) -> str:
    return f'<FONT POINT-SIZE="{size}" COLOR="{colour}">{_escaped(line)}</FONT>'


# -- texts -------------------------------------------------------------------------------


def _clean(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(
        character if character.isprintable() or character == "\n" else "?" for character in text
    )


def _escaped(text: str) -> str:
    return html.escape(_clean(text), quote=False) or " "


def _quoted(text: str) -> str:
    return '"' + _clean(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _line(text: str) -> str:
    return shorten(" ".join(text.splitlines()), _LONGEST)


def cells(text: str) -> int:
    """How many cells of a fixed-width font a line takes; wide characters take two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def shorten(text: str, limit: int) -> str:
    """A line of at most `limit` cells, cut with an ellipsis if need be."""
    if cells(text) <= limit:
        return text
    kept = text
    while cells(kept) > limit - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def fold(text: str, limit: int) -> list[str]:
    """A text in lines of at most `limit` cells."""
    return [shorten(line, limit) for line in textwrap.wrap(text, limit)]
