"""netcl-plugin-rope: rotary position embedding, an op with its own kernels both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netcl_core import OperatorRegistrar, hookimpl

if TYPE_CHECKING:
    from netcl_plugin_kit.testing import Case


class Plugin:
    """The hooks: netcl calls them when it loads the plugin, never when an op runs."""

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the op. If this raises, nothing of the plugin appears, and netcl says why."""
        from netcl_plugin_rope.operators import ROPE

        registry.add(ROPE)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case]:
        """What pytest and `netcl plugins check` try an op of this plugin with."""
        from netcl_plugin_rope.conformance import CASES  # only tests need them

        return [case for case in CASES if case.op == op]


#: What the entry point in pyproject.toml names.
plugin = Plugin()
