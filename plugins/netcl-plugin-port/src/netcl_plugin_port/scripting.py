"""Names of `torch.jit` that models ask for: nothing is scripted here."""

from __future__ import annotations

from typing import Any


def is_scripting() -> bool:
    """False."""
    return False


def is_tracing() -> bool:
    """False: a compiled function runs as Python while it is traced."""
    return False


def unused(fn: Any) -> Any:
    """The function as it is."""
    return fn


export = script_if_tracing = unused


def ignore(drop: Any = False, **options: Any) -> Any:
    """The same, with PyTorch's options or without."""
    return drop if callable(drop) else unused
