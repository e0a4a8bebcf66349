"""CompiledGraph, under the path that the documentation gives it, and the function beside it."""

from __future__ import annotations

from typing import Any

from netcl_core.plugins.manager import namespace


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(namespace("capture"), name)
