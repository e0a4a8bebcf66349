"""netcl-plugin-focal-loss: a loss made of an elementwise op and a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netcl_core import OperatorRegistrar, hookimpl
from netcl_core.autograd import composite

from netcl_plugin_focal_loss.loss import focal_elements, focal_loss

if TYPE_CHECKING:
    from netcl_plugin_kit.testing import Case


class Plugin:
    """The hooks: netcl calls them when it loads the plugin, never when an op runs."""

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the loss: a function of other ops, whose gradient follows from theirs."""
        registry.add(composite(focal_loss, ("input", "target"), parts=(focal_elements(),)))

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case]:
        """What an op is tried with."""
        from netcl_plugin_focal_loss.conformance import CASES  # only tests need them

        return [case for case in CASES if case.op == op]


#: What the entry point in pyproject.toml names.
plugin = Plugin()
