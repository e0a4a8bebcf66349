"""Where the user's code made a value: a kept frame, for readers."""

from __future__ import annotations

import linecache
from types import CodeType


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
