"""The plugin patterns: groups of traced ops that a plugin computes by kernels of its own.

What plugins write stands here; `netcl_core.autograd` hands out the rest.
"""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_patterns.records import Captured, Graph, MatchedOp, TrainingPattern

__all__ = ["Captured", "Graph", "MatchedOp", "TrainingPattern", "plugin"]


class PatternsPlugin:
    """Registers the namespace `patterns`, which compiled functions ask for the groups."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("patterns", "netcl_plugin_patterns.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "a namespace of the compiler; the patterns of plugins are checked by their cases"


plugin = PatternsPlugin()
