"""The plugin nn: hands out `netcl_core.nn` and `nc.save`, and has ops of its layers.

The modules are imported on first use.
"""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_nn import gates, sequences


class NnPlugin:
    """Registers the namespaces and the ops of recurrent steps, and says how they are tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("nn", "netcl_plugin_nn.api")
        registry.add("serialization", "netcl_plugin_nn.saving")

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in (*gates.OPERATORS, *sequences.SEQUENCES.values()):
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_nn import conformance  # not needed by programs that only compute

        return conformance.given_for(op)


plugin = NnPlugin()
