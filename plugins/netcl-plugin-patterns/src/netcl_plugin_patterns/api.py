"""The namespace `netcl_core.patterns`: every public name of this plugin."""

from __future__ import annotations

from netcl_plugin_patterns.records import Captured, Graph, MatchedOp, TrainingPattern
from netcl_plugin_patterns.rows import REGISTERED_ROWS as REGISTERED_ROWS
from netcl_plugin_patterns.training import (
    PatternPlan,
    TrainingGraphCompiler,
    get_training_compiler,
    planned,
)

__all__ = [
    "Captured",
    "Graph",
    "MatchedOp",
    "PatternPlan",
    "TrainingGraphCompiler",
    "TrainingPattern",
    "get_training_compiler",
    "planned",
]
