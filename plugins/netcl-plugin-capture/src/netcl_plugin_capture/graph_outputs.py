"""The outputs of a captured graph: what a block assigned, alone or in tuples, lists and dicts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from netcl_core import Tensor
from netcl_core.autograd import Node
from netcl_plugin_capture.recording import Recording


def operands_in(frame: FrameType) -> dict[str, Any]:
    """The variables of a frame that are tensors."""
    variables = frame.f_locals
    tensors = {
        name: variable for name, variable in variables.items() if isinstance(variable, Tensor)
    }
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED and type(variables) is dict:
        for name in tensors:  # before Python 3.13 a function's frame keeps them there to its end
            del variables[name]
    return tensors


def assigned(before: dict[str, Any], now: dict[str, Any], recorder: Recording) -> Any:
    """What a block assigned: nothing, a tensor or several; not what others were made from."""
    assigned = {
        id(value): value
        for name, value in now.items()
        if before.get(name) is not value and recorder.made(value.value.memory)
    }
    behind = _ancestors(assigned.values())
    results = tuple([value.value for key, value in assigned.items() if key not in behind])
    return results[0] if len(results) == 1 else results or None


def _ancestors(operands: Iterable[Any]) -> set[int]:
    """The identities of the nodes that some were made from."""
    numbers: set[int] = set()
    waiting = [
        parent for operand in operands if isinstance(operand, Node) for parent in operand.parents
    ]
    while waiting:
        node = waiting.pop()
        if id(node) not in numbers:
            numbers.add(id(node))
            waiting += node.parents if isinstance(node, Node) else ()
    return numbers


def mapped(result: Any, change: Callable[[Tensor], Any]) -> Any:
    """A result with other tensors in its tuples, lists and dicts."""
    if isinstance(result, Tensor):
        return change(result)
    if isinstance(result, dict):
        return {name: mapped(item, change) for name, item in result.items()}
    if isinstance(result, (tuple, list)):
        parts = [mapped(item, change) for item in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result
