"""netcl-plugin-gated-rms-norm: a training pattern, and the kernels that take a group's place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netcl_core import PatternRegistrar, hookimpl

if TYPE_CHECKING:
    from netcl_plugin_kit.testing import Case


class Plugin:
    """The hooks: netcl calls them when it loads the plugin, never when an op runs."""

    @hookimpl
    def netcl_register_patterns(self, registry: PatternRegistrar) -> None:
        """Add the pattern. If this raises, nothing of the plugin appears, and netcl says why."""
        from netcl_plugin_gated_rms_norm.patterns import PATTERN

        registry.add(PATTERN)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case]:
        """What pytest and `netcl plugins check` try the pattern with."""
        from netcl_plugin_gated_rms_norm.conformance import CASES  # only tests need them

        return [case for case in CASES if case.op == op]


#: What the entry point in pyproject.toml names.
plugin = Plugin()
