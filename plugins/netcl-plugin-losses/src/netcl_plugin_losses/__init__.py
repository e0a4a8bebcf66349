"""Loss functions: one template per elementwise loss, kernels by rows for class indices."""

from __future__ import annotations

from importlib import resources
from typing import Any, Final

from netcl_core import hookimpl
from netcl_plugin_losses import cross_entropy, detection, nll, probabilities, regression, rows

_ELEMENTS: Final = "_elements.cl.j2"


def element_templates() -> list[str]:
    """The templates of the element losses, which the public losses reduce."""
    folder = resources.files(__name__).joinpath("templates")
    return sorted(file.name for file in folder.iterdir() if file.name.endswith(_ELEMENTS))


class LossesPlugin:
    """Registers the records of this package's modules and templates."""

    @hookimpl
    def netcl_register_primitives(self, registry: Any) -> None:
        for name in element_templates():
            registry.add_template(name)

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in (regression, probabilities, detection, rows, cross_entropy, nll):
            for record in module.RECORDS:
                registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_losses import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = LossesPlugin()
