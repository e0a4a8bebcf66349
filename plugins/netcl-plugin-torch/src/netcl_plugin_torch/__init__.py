"""The plugin torch: OpenCL as a device of PyTorch. Users import `netcl_torch`.

netcl loads this module without PyTorch.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from netcl_core import hookimpl


class TorchPlugin:
    """Registers the namespace, which is the module that users of PyTorch import."""

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("netcl_torch", "netcl_torch")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        if find_spec("torch") is None:
            return "PyTorch is not installed, whose device this is"
        from netcl_plugin_torch import conformance

        return conformance.SCENARIOS


plugin = TorchPlugin()
