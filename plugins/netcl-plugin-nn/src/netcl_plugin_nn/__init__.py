"""The plugin nn: hands out the namespace `netcl_core.nn`; the modules are imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class NnPlugin:
    """Registers the namespace, and says how it is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("nn", "netcl_plugin_nn.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_nn import conformance  # not needed by programs that only compute

        return conformance.SCENARIOS


plugin = NnPlugin()
