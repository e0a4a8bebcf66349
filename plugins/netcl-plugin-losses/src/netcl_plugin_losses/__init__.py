"""Loss functions: mse_loss and cross_entropy."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_losses import cross_entropy, regression


class LossesPlugin:
    """Registers the records of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in (*regression.RECORDS, *cross_entropy.RECORDS):
            registry.add(record)


plugin = LossesPlugin()
