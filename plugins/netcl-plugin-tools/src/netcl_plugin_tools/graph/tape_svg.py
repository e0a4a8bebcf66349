"""What was recorded for the gradients, as a drawing: in SVG, or as text for Graphviz."""

from __future__ import annotations

from collections.abc import Mapping

from netcl_core import Tensor
from netcl_core.autograd import Node, Tape
from netcl_core.errors import ArgumentError, message
from netcl_core.inspect.recorded import target_of
from netcl_plugin_tools.graph.dot import to_dot, to_svg
from netcl_plugin_tools.graph.recorded import nodes_behind, recorded_graph
from netcl_plugin_tools.graph.repeated import repeated
from netcl_plugin_tools.graph.tape_graph import tape_graph


def tape_svg(
    recorded: Tape | Node, names: Mapping[str, Tensor] | None = None, *, title: str = "tape"
) -> str:
    """What a tape recorded, or what lies behind a loss, as a drawing in SVG.

    >>> w = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> loss = ag.sum(w * w)
    >>> svg = tape_svg(loss, {"w": w, "loss": loss})
    >>> "t1 = mul(w, w)" in svg, "loss = sum(t1" in svg
    (True, True)

    A notebook shows it by `IPython.display.SVG(svg)`, a browser from a file. Each op has a box
    with the line of the user's code, and arrows go from what it read to what it made; leaves
    that take a gradient and constants have boxes of other colours. An op whose backward would
    raise MutationError says which of its inputs was changed in place.

    Args:
        recorded: A Tape, or a Node: then what its backward pass goes through.
        names: What the drawing calls values, such as `dict(model.named_parameters())`.
        title: What stands above it.

    Raises:
        MissingExtraError: pygraphviz, of the extra `graph`, is not installed.
    """
    if isinstance(recorded, Tape):
        nodes = recorded.nodes
    elif isinstance(recorded, Node):
        nodes = nodes_behind(recorded)
    else:
        raise ArgumentError(message("tape_svg", f"a {type(recorded).__name__}", "a Tape or a Node"))
    called = {target_of(value): name for name, value in (names or {}).items()}
    return to_svg(repeated(tape_graph(title, recorded_graph(nodes), called)))


def tape_dot(tape: Tape) -> str:
    """What a tape recorded, in Graphviz' language DOT: `Tape.to_dot`."""
    return to_dot(tape_graph("tape", recorded_graph(tape.nodes), {}))
