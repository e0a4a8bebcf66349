"""Resuming: where a trace cannot go on, the function does, with data.

What was taken down so far runs, op by op, and each symbol that the function holds becomes its
value. So a function runs once, whatever it does: what it has changed by then is not done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_core.ops.operator_call import apply_operator
from netcl_core.tape.modes import enable_grad, no_grad
from netcl_core.tape.node import Node, next_number
from netcl_core.tape.region_call import PlannedCall
from netcl_core.tape.tracing import RANDOM, TracedNumber, TraceNode, TracingContext
from netcl_core.tensors.random_state import random_state


def resume(context: TracingContext) -> None:
    """Run the ops of a trace and give every symbol its value."""
    for node in context.nodes:
        if node.tensor is None:
            node.tensor = _computed(node, context.grad)
        symbol = context.symbols.get(node.number)
        if symbol is not None:
            _become(symbol, node.tensor, node)


def _computed(node: TraceNode, grad: bool) -> Any:
    operands: list[Any] = [None if x is None else x.tensor for x in node.inputs]
    if node.op_name == RANDOM:
        assert node.device is not None  # a random state lies somewhere
        return random_state(node.device)
    if node.call is None:
        return operands[0].detach()
    scalars = [plain(x) for x in node.scalars]
    with enable_grad() if grad and not node.cut else no_grad():
        if isinstance(node.call, PlannedCall):
            return node.call(operands, scalars, node.attrs)
        return apply_operator(node.call.made, operands)


def _become(symbol: Node, operand: Any, node: TraceNode) -> None:
    """Let a symbol be the same value as an operand, through which gradients pass."""
    symbol.number = next_number()
    symbol.value = operand.value
    if isinstance(operand, Node) and not operand.is_leaf:
        operand.frame = symbol.frame = node.frame
        symbol.op_name = operand.op_name
        symbol.inputs, symbol.grad_fn, symbol.spread = (operand,), _passed, True
        symbol._requires_grad = operand.requires_grad


def _passed(grad: Any) -> Sequence[Any]:
    return [grad]


def plain(value: Any) -> Any:
    """A number as the caller gave it."""
    return value.read() if type(value) is TracedNumber else value


def given_back(found: Any, context: TracingContext, outer: tuple[int, ...] = ()) -> Any:
    """A result with operands and numbers in place of their symbols, in tuples, lists and dicts.

    `outer` are those around it, by id: one may contain itself.
    """
    kind = type(found)
    if kind is TracedNumber:
        return found.read()
    if kind is Node:
        nodes = (node for node in context.nodes if context.symbols.get(node.number) is found)
        return next((node.tensor for node in nodes), found)
    if id(found) in outer:
        return found
    outer = (*outer, id(found))
    if kind is list:
        found[:] = [given_back(each, context, outer) for each in found]
    elif kind is dict:
        found.update({name: given_back(each, context, outer) for name, each in found.items()})
    elif isinstance(found, tuple):
        parts = [given_back(each, context, outer) for each in found]
        if any(new is not old for new, old in zip(parts, found, strict=True)):
            return kind._make(parts) if hasattr(kind, "_make") else kind(parts)
    return found
