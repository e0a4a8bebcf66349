"""The plugin half-inference: brings the amp policy half_inference."""

from __future__ import annotations

from netcl_core import AmpPolicyRegistrar, hookimpl


class Plugin:
    """The hooks: netcl calls them when it loads the plugin, never when an op runs."""

    @hookimpl
    def netcl_register_amp_policies(self, registry: AmpPolicyRegistrar) -> None:
        """Add the policy. If this raises, nothing of the plugin appears, and netcl says why."""
        from netcl_plugin_half_inference.policies import POLICY

        registry.add(POLICY)


#: What the entry point in pyproject.toml names.
plugin = Plugin()
