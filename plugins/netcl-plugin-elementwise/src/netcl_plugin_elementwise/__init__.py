"""Elementwise ops: one template per op in `templates/`, and this list of second names."""

from __future__ import annotations

from importlib import resources
from typing import Any

from netcl_core import hookimpl
from netcl_plugin_elementwise.operands import ALONG_CHANNELS, powers, slopes_per_channel

#: Further names by which PyTorch's users know an op.
ALIASES = {"silu": "swish", "clip": "clamp", "hardtanh": "hard_tanh"}

#: What looks at the operands of an op before they are broadcast.
ALIGNED = {"pow": powers, "prelu": slopes_per_channel}

#: What only that uses.
PARTS = {"prelu": (ALONG_CHANNELS,)}


def template_names() -> list[str]:
    """The names of the ops, which are the stems of the template files."""
    folder = resources.files(__name__).joinpath("templates")
    return sorted(
        file.name.removesuffix(".cl.j2")
        for file in folder.iterdir()
        if file.name.endswith(".cl.j2")
    )


class ElementwisePlugin:
    """Registers every template of the package."""

    @hookimpl
    def netcl_register_primitives(self, registry: Any) -> None:
        for name in template_names():
            registry.add_template(
                f"{name}.cl.j2", align=ALIGNED.get(name), parts=PARTS.get(name, ())
            )
        for alias, name in ALIASES.items():
            registry.add_template(f"{name}.cl.j2", name=alias)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_elementwise import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = ElementwisePlugin()
