"""Matrix products: matmul by NumPy's rules, bmm, and linear."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_linalg import linear, matmul


class LinalgPlugin:
    """Registers the operators of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in (*matmul.OPERATORS, *linear.OPERATORS):
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_linalg import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = LinalgPlugin()
