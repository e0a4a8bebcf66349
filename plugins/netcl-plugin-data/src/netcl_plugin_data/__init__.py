"""The plugin data: hands out `netcl_core.data`; the modules are imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class DataPlugin:
    """Registers the namespace."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("data", "netcl_plugin_data.api")


plugin = DataPlugin()
