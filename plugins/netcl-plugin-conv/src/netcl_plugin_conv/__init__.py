"""Convolutions, pooling and interpolation."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_conv import convolution, interpolate, pooling


class ConvPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        modules = (convolution, pooling, interpolate)
        for record in (record for module in modules for record in module.OPERATORS):
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_conv import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = ConvPlugin()
