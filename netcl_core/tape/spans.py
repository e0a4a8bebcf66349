"""Spans: which nodes of a trace one call of an op has made that is a function of other ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from netcl_core.tape.trace_node import TraceNode
from netcl_core.tape.tracing import TracingContext


@final
@dataclass(frozen=True, eq=False, slots=True)
class Span:
    """A call of an op that is made of others, in a trace: those are the nodes.

    Attributes:
        op: The op's name.
        operands: Its tensors, in the order of its parameters; None for an absent one.
        attrs: All its other arguments, by name.
        first: The number of the first node that may be its own.
        results: Its results.
        cut: Whether no gradient flows back through it.
    """

    op: str
    operands: tuple[TraceNode | None, ...]
    attrs: Mapping[str, Any]
    first: int
    results: tuple[TraceNode, ...]
    cut: bool


def note_span(
    context: TracingContext,
    op: str,
    operands: Sequence[Any],
    attrs: Mapping[str, Any],
    first: int,
    result: Any,
) -> None:
    """Note a call in its trace, unless it takes host data or gives what is no tensor."""
    known = [None if x is None else context.known(x) for x in operands]
    if any(x is not None and node is None for x, node in zip(operands, known, strict=True)):
        return
    values = result if isinstance(result, tuple) else (result,)
    results = tuple([node for node in map(context.known, values) if node is not None])
    if len(results) == len(values):
        context.spans.append(Span(op, tuple(known), attrs, first, results, context.cuts))
