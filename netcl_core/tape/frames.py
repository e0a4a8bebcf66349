"""Where the user's code made a value: a kept frame, for readers."""

from __future__ import annotations

import linecache
from types import CodeType
from typing import Any

from netcl_core.errors import AnomalyError, message


def line_of(frame: tuple[CodeType, int]) -> tuple[str, int]:
    """The file and the line of a kept frame."""
    code, instruction = frame
    positions = list(code.co_positions())
    return code.co_filename, positions[instruction // 2][0] or code.co_firstlineno


def describe_frame(frame: tuple[CodeType, int] | None) -> str:
    """`file:line, in function: source line` of a kept frame."""
    if frame is None:
        return "an unknown place"
    file, line = line_of(frame)
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}, in {frame[0].co_name}" + (f": {text}" if text else "")


def trace_of(node: Any) -> str:
    """The stack that made a node, if it was kept, for the end of an error."""
    trace = node.creation_trace
    return "\nCreation trace:\n" + "".join(trace) if trace else ""


def anomaly(node: Any, given: str, expected: str) -> AnomalyError:
    """The error of a node with a wrong gradient: what was given, and what was expected of it."""
    text = message(f"backward of {node.op_name}", given, expected, f"Made at {node.made_at}")
    return AnomalyError(text + trace_of(node))
