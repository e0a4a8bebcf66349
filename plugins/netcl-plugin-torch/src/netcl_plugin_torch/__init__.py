"""The plugin torch: OpenCL as a device of PyTorch. Users import `netcl_torch`.

netcl loads this module without PyTorch.
"""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl


class TorchPlugin:
    """Registers the namespace, which is the module that users of PyTorch import."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("netcl_torch", "netcl_torch")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        return "PyTorch's device; PyTorch's database of operators is run on it"


plugin = TorchPlugin()
