"""The plugin optim: hands out `netcl_core.optim`; the optimizers are imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class OptimPlugin:
    """Registers the namespace."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("optim", "netcl_plugin_optim.api")


plugin = OptimPlugin()
