"""The public names of training patterns, under the path that the documentation gives them.

`fused_weighted_bce_smooth_l1_loss` is an op of a plugin, looked up on first use.
"""

from __future__ import annotations

from typing import Any, Final

from netcl_core.jit.patterns.records import Captured as Captured
from netcl_core.jit.patterns.records import MatchedOp as MatchedOp
from netcl_core.jit.patterns.records import TrainingPattern as TrainingPattern
from netcl_core.jit.patterns.training import PatternPlan as PatternPlan
from netcl_core.jit.patterns.training import TrainingGraphCompiler as TrainingGraphCompiler
from netcl_core.jit.patterns.training import get_training_compiler as get_training_compiler
from netcl_core.jit.patterns.training import planned as planned
from netcl_core.tensors.functions import functions

_OP: Final = "fused_weighted_bce_smooth_l1_loss"


def __getattr__(name: str) -> Any:
    if name != _OP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functions[name]
