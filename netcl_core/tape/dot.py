"""A tape as text in Graphviz' language DOT."""

from __future__ import annotations

from collections.abc import Iterable

from netcl_core.tape.node import Node, Target, leaf_node, target_of

_HEAD = 'digraph tape {\n  rankdir="BT";\n  node [shape="box", fontname="sans-serif"];'


def dot(nodes: Iterable[Node]) -> str:
    """A graph with a node for each value, and an edge from each input to what was made of it."""
    values: dict[Target, Node] = {}
    edges: list[tuple[Target, Target]] = []
    for node in nodes:
        for x in (node if node.source is None else node.source).inputs:
            values.setdefault(target_of(x), leaf_node(x))
            edges.append((target_of(x), target_of(node)))
        values.setdefault(target_of(node), node)
    names = {target: f"v{number}" for number, target in enumerate(values)}
    boxes = [f"  {names[target]} [{_attributes(node)}];" for target, node in values.items()]
    arrows = [f"  {names[source]} -> {names[target]};" for source, target in edges]
    return "\n".join([_HEAD, *boxes, *arrows, "}\n"])


def _attributes(node: Node) -> str:
    what = node.op_name or ("leaf" if node.requires_grad else "constant")
    found = {"label": f"{what}\n{tuple(node.shape)} {node.dtype}"}
    if node.frame is not None:
        found["tooltip"] = node.where
    if node.is_leaf:
        found["style"] = "rounded"
    return ", ".join(f"{name}={_quoted(text)}" for name, text in found.items())


def _quoted(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", " ")
    return f'"{text}"'
