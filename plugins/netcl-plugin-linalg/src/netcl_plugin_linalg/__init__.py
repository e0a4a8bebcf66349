"""Matrix products: matmul by NumPy's rules, linear, attention, and what is made of them."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_linalg import attention, einsum, linear, matmul, products


class LinalgPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in (matmul, linear, attention, products, einsum):
            for record in module.OPERATORS:
                registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_linalg import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = LinalgPlugin()
