"""The plugin data: hands out `netcl_core.data`, which is `netcl_core.utils.data` as well.

The modules are imported on first use.
"""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class DataPlugin:
    """Registers the namespace, and says how it is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("data", "netcl_plugin_data.api")
        registry.add("utils", "netcl_plugin_data.utils")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        if op == "utils":
            return "PyTorch's path to the namespace data, which is the same module"
        from netcl_plugin_data import conformance  # not needed by programs that only compute

        return conformance.SCENARIOS


plugin = DataPlugin()
