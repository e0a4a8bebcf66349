"""The user's own frame: the innermost one that is neither netcl's nor a plugin's."""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType
from typing import Final

from netcl_core.plugins.registry import registry


class _Own(dict[str, bool]):
    """Whether a module is netcl's or an active plugin's, by its name; found once per name."""

    def __missing__(self, module: str) -> bool:
        package = module.partition(".")[0]
        ours = self[module] = package == "netcl_core" or package in registry.packages
        return ours


_own: Final = _Own()
registry.on_change(_own.clear)


def is_own(module: str) -> bool:
    """Whether a module belongs to netcl or to a plugin."""
    return _own[module]


def user_frame() -> tuple[CodeType, int] | None:
    """The code object and instruction of the user's frame; cheap, the line is found later."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if not _own[frame.f_globals.get("__name__", "")]:
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


def describe(frame: tuple[CodeType, int] | None) -> str:
    """`file:line, in function: source line` of a kept frame."""
    if frame is None:
        return "an unknown place"
    code, instruction = frame
    positions = list(code.co_positions())
    line = positions[instruction // 2][0] or code.co_firstlineno
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_name}" + (f": {text}" if text else "")


def caller_name() -> str:
    """The name of the function that called `apply_op`."""
    return sys._getframe(2).f_code.co_name
