"""The public names of training patterns, under the path that the documentation gives them.

`fused_weighted_bce_smooth_l1_loss` is an op of a plugin, looked up on first use.
"""

from __future__ import annotations

from typing import Any, Final

from netcl_core.jit.patterns.records import Captured, MatchedOp, TrainingPattern
from netcl_core.jit.patterns.training import (
    PatternPlan,
    TrainingGraphCompiler,
    get_training_compiler,
    planned,
)
from netcl_core.tensors.functions import functions

__all__ = [
    "Captured",
    "MatchedOp",
    "PatternPlan",
    "TrainingGraphCompiler",
    "TrainingPattern",
    "get_training_compiler",
    "planned",
]

_OP: Final = "fused_weighted_bce_smooth_l1_loss"


def __getattr__(name: str) -> Any:
    if name != _OP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functions[name]
