"""The namespace `netcl_core.fx`: what models written for PyTorch's tracer ask of it."""

from __future__ import annotations

from typing import Any

from netcl_plugin_port.absent import absence

__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """As it is: `ag.jit_compile` traces ops, and looks into every function."""
    return fn_or_name


def __getattr__(name: str) -> Any:
    raise absence("fx", name, __all__)
