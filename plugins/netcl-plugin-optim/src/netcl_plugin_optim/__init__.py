"""The plugin optim: hands out `netcl_core.optim`; the optimizers are imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class OptimPlugin:
    """Registers the namespace, and says how it is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("optim", "netcl_plugin_optim.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_optim import conformance  # not needed by programs that only compute

        return conformance.SCENARIOS


plugin = OptimPlugin()
