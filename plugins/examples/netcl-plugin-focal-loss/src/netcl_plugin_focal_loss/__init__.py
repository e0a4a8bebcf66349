"""netcl-plugin-focal-loss: a loss made of an elementwise op and a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from netcl_core import OperatorRegistrar, PrimitiveRegistrar, hookimpl
from netcl_core.autograd import Composite

from netcl_plugin_focal_loss.loss import focal_loss

if TYPE_CHECKING:
    from netcl_core.testing import Case


class Plugin:
    """The hooks: netcl calls them when it loads the plugin, never when an op runs."""

    @hookimpl
    def netcl_register_primitives(self, registry: PrimitiveRegistrar) -> None:
        """Add the loss of each element."""
        registry.add_template("focal_elements.cl.j2")

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the loss: a function of other ops, whose gradient follows from theirs."""
        registry.add(Composite("focal_loss", focal_loss, focal_loss.__doc__ or ""))

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Sequence[Case] | str:
        """What an op is tried with, or why it needs no case."""
        from netcl_plugin_focal_loss.conformance import CASES  # only tests need them

        if op == "focal_elements":
            return "focal_loss before its reduction"
        return [case for case in CASES if case.op == op]


#: What the entry point in pyproject.toml names.
plugin = Plugin()
