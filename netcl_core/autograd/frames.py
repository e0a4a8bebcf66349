"""The user's own frame: the innermost one that is neither netcl's nor a plugin's."""

from __future__ import annotations

import linecache
import sys
from types import CodeType, FrameType
from typing import Final


class _Own(dict[str, bool]):
    """Whether a module is ours, by its name; found once per name."""

    def __init__(self) -> None:
        self.packages: tuple[str, ...] = ("netcl_core",)

    def __missing__(self, module: str) -> bool:
        ours = self[module] = module.partition(".")[0] in self.packages
        return ours


_own: Final = _Own()


def add_own(package: str) -> None:
    """Treat the frames of a plugin's package as ours, not as the user's."""
    _own.packages = (*_own.packages, package)
    _own.clear()


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
