"""Resuming: where a trace cannot go on, the function does, with data.

What was taken down so far runs, op by op, and each symbol that the function holds becomes its
value. So a function runs once, whatever it does: what it has changed by then is not done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_core.tape.apply import apply
from netcl_core.tape.modes import enable_grad, no_grad
from netcl_core.tape.node import Node, target_of
from netcl_core.tape.trace_node import INPUT, RANDOM, TraceNode
from netcl_core.tape.traced_number import TracedNumber
from netcl_core.tape.tracing import TracingContext
from netcl_core.tensors.random_state import random_state
from netcl_core.tensors.tensor import Tensor


def resume(context: TracingContext) -> None:
    """Run the ops of a trace and give every symbol its value."""
    for node in context.nodes:
        if node.tensor is None:
            node.tensor = _computed(node, context.grad)
    pairs = [(context.nodes[number], symbol) for number, symbol in context.symbols.items()]
    give_values([(node, symbol, node.tensor) for node, symbol in pairs])
    for target, node in context.writes.values():
        target.overwrite(node.tensor)


def give_values(symbols: Sequence[tuple[TraceNode, Node, Any]]) -> None:
    """Let the symbol of each node be an operand."""
    for node, symbol, operand in symbols:
        _become(symbol, operand, node)
    for node, symbol, held in symbols:  # they stand for arguments, and what views were made of
        given = node.op_name == INPUT and node.call is None
        if isinstance(held, Tensor) and (given or held.value._storage is not None):
            held.value.storage.join(held, symbol)


def _computed(node: TraceNode, grad: bool) -> Any:
    operands: list[Any] = [x.tensor for x in node.inputs]
    if node.pick is not None:
        return operands[0][node.pick]
    if node.op_name == RANDOM:
        assert node.device is not None  # a random state lies somewhere
        return random_state(node.device)
    if node.call is None:
        return operands[0].detach()
    scalars = [x.read() if type(x) is TracedNumber else x for x in node.scalars]
    with enable_grad() if grad and not node.cut else no_grad():
        return apply(node.call, operands, scalars, node.attrs)


def _become(symbol: Node, operand: Any, node: TraceNode) -> None:
    """Let a symbol be the same value as an operand, through which gradients pass."""
    symbol.value = operand.value
    if isinstance(operand, Node) and not operand.is_leaf:
        operand.frame = node.frame
        symbol.share(operand)


def given_back(value: Any, context: TracingContext, outer: tuple[int, ...] = ()) -> Any:
    """A result with operands and numbers in place of their symbols, in tuples, lists and dicts.

    `outer` are those around it, by id: one may contain itself.
    """
    kind = type(value)
    if kind is TracedNumber:
        return value.read()
    if kind is Node:
        nodes = (node for node in context.nodes if context.symbols.get(node.number) is value)
        held = next((node.tensor for node in nodes), value)
        same = value.value is held.value and target_of(value) == target_of(held)
        return held if same else value  # it has been changed in place since
    if id(value) in outer:
        return value
    outer = (*outer, id(value))
    if kind is list:
        value[:] = [given_back(item, context, outer) for item in value]
    elif kind is dict:
        value.update({name: given_back(item, context, outer) for name, item in value.items()})
    elif isinstance(value, tuple):
        parts = [given_back(item, context, outer) for item in value]
        if any(new is not old for new, old in zip(parts, value, strict=True)):
            return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    return value
