"""The plugin unit-lines: brings another kernel for the op l2_normalize."""

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
        """Add the kernels. If this raises, nothing of the plugin appears, and netcl says why."""
        from netcl_plugin_unit_lines.implementations import IMPLEMENTATION

        registry.add(IMPLEMENTATION)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case]:
        """What tests and `netcl plugins check` try it with."""
        from netcl_plugin_unit_lines.conformance import CASES

        return CASES


#: What the entry point in pyproject.toml names.
plugin = Plugin()
