"""Shape ops, reductions and the softmax family."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_tensor import (
    dropout,
    indexing,
    joining,
    norms,
    ranking,
    reductions,
    scans,
    selecting,
    shapes,
    softmax,
    statistics,
)

_MODULES = (
    shapes,
    indexing,
    joining,
    selecting,
    reductions,
    ranking,
    scans,
    statistics,
    softmax,
    norms,
    dropout,
)


class TensorPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in _MODULES:
            for record in module.OPERATORS:
                registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_tensor import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = TensorPlugin()
