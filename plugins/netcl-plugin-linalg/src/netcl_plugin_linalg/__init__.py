"""Products, linear, attention; factorizations (nc.linalg), Fourier transforms (nc.fft)."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_linalg import (
    attention,
    bilinear,
    einsum,
    fourier,
    host,
    linear,
    matmul,
    older_names,
    products,
    spectra,
    triangular,
)


class LinalgPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("linalg", "netcl_plugin_linalg.namespace")
        registry.add("fft", "netcl_plugin_linalg.fft")
        registry.add("signal", "netcl_plugin_linalg.signal")

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in (
            matmul,
            linear,
            attention,
            products,
            bilinear,
            einsum,
            host,
            fourier,
            triangular,
            older_names,
            spectra,
        ):
            for record in module.OPERATORS:
                registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_linalg import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = LinalgPlugin()
