"""The public names of training patterns, under the path that the documentation gives them.

They are those of the namespace `patterns`; `fused_weighted_bce_smooth_l1_loss` is an op.
"""

from __future__ import annotations

from typing import Any, Final

from netcl_core.plugins.manager import namespace
from netcl_core.tensors.functions import functions

_OP: Final = "fused_weighted_bce_smooth_l1_loss"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functions[name] if name == _OP else getattr(namespace("patterns"), name)
