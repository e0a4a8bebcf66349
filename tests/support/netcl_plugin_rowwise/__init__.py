"""The plugin rowwise: kernels for layer_norm and cross_entropy, which others have brought."""

from __future__ import annotations

from netcl_core import OperatorRegistrar, hookimpl


class Plugin:
    """The hooks."""

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the kernels."""
        from netcl_plugin_rowwise.implementations import IMPLEMENTATIONS

        for record in IMPLEMENTATIONS:
            registry.add(record)


plugin = Plugin()
