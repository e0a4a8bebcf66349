"""Convolutions, pooling, folding and interpolation."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_conv import (
    convolution,
    folding,
    fractional,
    interpolate,
    local_norm,
    pooling,
    sampling,
    unpooling,
)

_MODULES = (
    convolution, pooling, interpolate, unpooling, fractional, folding, local_norm, sampling,
)  # fmt: skip


class ConvPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in (record for module in _MODULES for record in module.OPERATORS):
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_conv import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = ConvPlugin()
