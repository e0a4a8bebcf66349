"""Losses, one template per elementwise one and kernels by rows for classes; distributions."""

from __future__ import annotations

from typing import Any

from netcl_core import hookimpl
from netcl_plugin_losses import (
    class_margins,
    cross_entropy,
    ctc,
    likelihoods,
    margins,
    nll,
    probabilities,
    regression,
    signs,
)

_MODULES = (
    regression, margins, signs, likelihoods, probabilities, cross_entropy, nll, class_margins, ctc,
)  # fmt: skip


class LossesPlugin:
    """Registers the records of this package's modules."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in _MODULES:
            for record in module.records():
                registry.add(record)

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("distributions", "netcl_plugin_losses.distributions")

    @hookimpl
    def netcl_register_patterns(self, registry: Any) -> None:
        for record in cross_entropy.patterns():
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_losses import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = LossesPlugin()
