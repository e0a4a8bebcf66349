"""The plugin autodiff: hands out `netcl_core.autodiff`, which is imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class AutodiffPlugin:
    """Registers the namespace, and says how it is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("autodiff", "netcl_plugin_autodiff.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_autodiff import conformance  # not needed by programs that only compute

        return conformance.SCENARIOS


plugin = AutodiffPlugin()
