"""A tape as text in Graphviz' language DOT."""

from __future__ import annotations

from netcl_core.tape.node import Node
from netcl_core.tape.recorded import RecordedGraph

_HEAD = 'digraph tape {\n  rankdir="BT";\n  node [shape="box", fontname="sans-serif"];'


def dot(graph: RecordedGraph) -> str:
    """A graph with a node for each value, and an edge from each input to what was made of it."""
    names = {target: f"v{number}" for number, target in enumerate(graph.values)}
    boxes = [f"  {names[target]} [{_attributes(node)}];" for target, node in graph.values.items()]
    arrows = [
        f"  {names[source]} -> {names[target]};"
        for call in graph.calls
        for target in call.results
        for source in call.inputs
    ]
    return "\n".join([_HEAD, *boxes, *arrows, "}\n"])


def _attributes(node: Node) -> str:
    what = node.op_name or ("leaf" if node.requires_grad else "constant")
    found = {"label": f"{what}\n{tuple(node.shape)} {node.dtype}"}
    if node.frame is not None:
        found["tooltip"] = node.made_at
    if node.is_leaf:
        found["style"] = "rounded"
    return ", ".join(f"{name}={_quoted(text)}" for name, text in found.items())


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")
    return f'"{text}"'
