"""Elementwise ops: one template per op in `templates/`, and this list of second names."""

from __future__ import annotations

from importlib import resources
from typing import Any

from netcl_core import hookimpl
from netcl_plugin_elementwise import composed
from netcl_plugin_elementwise.forms import FORMS, part
from netcl_plugin_elementwise.operands import (
    ALONG_CHANNELS,
    no_zero,
    numbers,
    powers,
    slopes_per_channel,
)

#: Further names by which PyTorch's users know an op.
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "hardsigmoid": "hard_sigmoid",
    "hardswish": "hard_swish",
    "hardtanh": "hard_tanh",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "sgn": "sign",
    "silu": "swish",
    "subtract": "sub",
    "true_divide": "div",
}

#: What looks at the operands of an op before they are broadcast.
ALIGNED = {
    "pow": powers,
    "square": numbers,
    "prelu": slopes_per_channel,
    "floor_divide": no_zero,
    "fmod": no_zero,
    "remainder": no_zero,
}


def parts_of(name: str) -> tuple[Any, ...]:
    """What only the aligning or the forms of an op use."""
    if name == "prelu":
        return (ALONG_CHANNELS,)
    used = {"div": "divide_to_zero", "round": "round_to"}
    return (part(used[name]),) if name in used else ()


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
                f"{name}.cl.j2",
                align=ALIGNED.get(name),
                parts=parts_of(name),
                forms=FORMS.get(name),
            )
        for alias, name in ALIASES.items():
            registry.add_template(
                f"{name}.cl.j2",
                name=alias,
                alias_of=name,
                parts=parts_of(name),
                forms=FORMS.get(name),
            )

    @hookimpl
    def netcl_register_namespaces(self, registry: Any) -> None:
        registry.add("special", "netcl_plugin_elementwise.special")

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in composed.operators():
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        from netcl_plugin_elementwise import conformance  # not needed by programs that only compute

        return conformance.cases(op)


plugin = ElementwisePlugin()
