"""Shape ops, reductions, the softmax family, norms and random numbers."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_tensor import (
    arranging,
    assembling,
    bags,
    channel_norms,
    closeness,
    compositions,
    counting,
    distances,
    drawing,
    dropout,
    elements,
    gates,
    index_reductions,
    joining,
    logic,
    moments,
    moving,
    noise,
    norm_runs,
    norms,
    order_lines,
    order_statistics,
    padding,
    picking,
    places,
    random,
    ranking,
    reductions,
    rejection,
    residual_norm,
    running,
    scans,
    scattering,
    searching,
    second_names,
    selecting,
    shapes,
    softmax,
    sorting,
    statistics,
)

_MODULES = (
    bags,
    shapes,
    elements,
    joining,
    padding,
    selecting,
    reductions,
    rejection,
    ranking,
    running,
    scans,
    statistics,
    softmax,
    norms,
    dropout,
    noise,
    random,
    logic,
    moving,
    gates,
    sorting,
    order_statistics,
    scattering,
    counting,
    drawing,
    closeness,
    compositions,
    arranging,
    picking,
    assembling,
    index_reductions,
    moments,
    order_lines,
    places,
    searching,
    second_names,
)


class TensorPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in _MODULES:
            for record in module.OPERATORS:
                registry.add(record)
        for record in (*channel_norms.operators(), *distances.records()):
            registry.add(record)

    @hookimpl
    def netcl_register_patterns(self, registry: Any) -> None:
        for pattern in (*norm_runs.PATTERNS, *residual_norm.PATTERNS):
            registry.add(pattern)

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("creation", "netcl_plugin_tensor.creation")
        registry.add("random", "netcl_plugin_tensor.random_namespace")
        registry.add("reductions", "netcl_plugin_tensor.reducing")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_tensor import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = TensorPlugin()
