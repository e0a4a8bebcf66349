"""The plugin mpi: hands out `netcl_core.distributed`, which is imported on first use."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class MpiPlugin:
    """Registers the namespace, and says how it is tried."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("distributed", "netcl_plugin_mpi.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "it takes several processes: the plugin's own tests run under mpiexec"


plugin = MpiPlugin()
