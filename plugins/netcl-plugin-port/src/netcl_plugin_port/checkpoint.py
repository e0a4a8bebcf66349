"""`torch.utils.checkpoint`: computing again instead of keeping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import netcl_core as nc


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: Any = None, **kwargs: Any
) -> Any:
    """`autodiff.checkpoint(function, *args)`; PyTorch's own options are left out."""
    for name in ("context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop"):
        kwargs.pop(name, None)
    return nc.autodiff.checkpoint(function, *args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, **kwargs: Any) -> Any:
    """Modules in order, of which each of some segments is computed again."""
    modules = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = -(-len(modules) // segments)
    for start in range(0, len(modules), size):
        input = checkpoint(_chain(modules[start : start + size]), input)
    return input


def _chain(modules: list[Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for module in modules:
            x = module(x)
        return x

    return run
