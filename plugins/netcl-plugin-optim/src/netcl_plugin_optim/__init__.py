"""The plugin optim: hands out `netcl_core.optim`; the optimizers are imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_optim import written_out


class OptimPlugin:
    """Registers the namespace and the pattern of a step, and says how they are tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("optim", "netcl_plugin_optim.api")

    @hookimpl
    def netcl_register_patterns(self, registry: Any) -> None:
        registry.add(written_out.pattern())

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_optim import conformance  # not needed by programs that only compute

        return conformance.given_for(op)


plugin = OptimPlugin()
