"""The plugin amp: brings policies of mixed precision, and hands out `netcl_core.amp`."""

from __future__ import annotations

from typing import Any

from netcl_core import AmpPolicyRegistrar, hookimpl
from netcl_plugin_amp.policies import POLICIES
from netcl_plugin_amp.policy import AmpPolicy

__all__ = ["AmpPolicy", "plugin"]


class AmpPlugin:
    """Registers the policies and the namespace `netcl_core.amp`, and says how that is tried."""

    @hookimpl
    def netcl_register_amp_policies(self, registry: AmpPolicyRegistrar) -> None:
        for policy in POLICIES:
            registry.add(policy)

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("amp", "netcl_plugin_amp.api")

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_amp import conformance  # not needed by programs that only compute

        return conformance.SCENARIOS


plugin = AmpPlugin()
