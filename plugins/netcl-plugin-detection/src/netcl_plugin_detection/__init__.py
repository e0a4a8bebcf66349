"""Losses of object detection: weighted elementwise ones, and both of them fused into one pass."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_detection import fused, weighted


class DetectionPlugin:
    """Registers the records of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in (weighted, fused):
            for record in module.records():
                registry.add(record)

    @hookimpl
    def netcl_register_patterns(self, registry: Any) -> None:
        for record in fused.patterns():
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_detection import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = DetectionPlugin()
