"""The plugin rowwise: kernels for layer_norm and cross_entropy, which others have brought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netcl_core import OperatorRegistrar, hookimpl

if TYPE_CHECKING:
    from netcl_plugin_kit.testing import Case


class Plugin:
    """The hooks."""

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the kernels."""
        from netcl_plugin_rowwise.implementations import IMPLEMENTATIONS

        for record in IMPLEMENTATIONS:
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case]:
        """What it is tried with: the ops' own cases ask for more than it serves."""
        from netcl_plugin_rowwise.conformance import CASES

        return CASES[op]


plugin = Plugin()
