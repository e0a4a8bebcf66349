"""Shapes and attributes on a command line: `32x784,784x512:float16`, `dim=1`."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from netcl_core import Spec, dtype_name
from netcl_core.errors import ArgumentError, ShapeError, message

_SHAPE: Final = re.compile(r"(?:\(\)|\d+(?:x\d+)*)(?::\w+)?")


def specs(who: str, text: str, dtype: str) -> list[Spec]:
    """Shapes with commas between them, each with `dtype` or its own."""
    return [spec(who, part, dtype) for part in text.split(",")]


def spec(who: str, text: str, dtype: str) -> Spec:
    """`4x1`, `()` or `4x1:int64`; raises ShapeError or DtypeError."""
    if not _SHAPE.fullmatch(text.strip()):
        expected = "sizes such as 64x32, () for none, and a dtype as in 64x32:int64"
        raise ShapeError(message(who, f"the shape {text!r}", expected))
    sizes, _, own = text.strip().partition(":")
    numbers = () if sizes == "()" else tuple(map(int, sizes.split("x")))
    return Spec(numbers, dtype_name(own, "--shapes") if own else dtype)


def attribute(who: str, text: str) -> tuple[str, Any]:
    """`name=value`, the value as in Python, or a word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentError(message(who, f"--attr {text!r}", "NAME=VALUE"))
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
