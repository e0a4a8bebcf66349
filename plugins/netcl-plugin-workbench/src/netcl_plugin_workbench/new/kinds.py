"""The kinds of projects that `netcl plugins new` makes: a row here and a folder of templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of project.

    Attributes:
        name: As it is asked for; also its folder below `templates/plugin/`.
        summary: What such a plugin brings, in one line.
        first: What its author changes first; `{package}` and `{op}` are filled in.
    """

    name: str
    summary: str
    first: tuple[str, ...]


_KINDS: Final = (
    Kind(
        "primitive",
        "an elementwise op: one C expression for the value, one per input for the gradient",
        (
            "src/{package}/templates/{op}.cl.j2  the formulas of value and gradient",
            "src/{package}/conformance.py  what the op is called with, and what it has to equal",
        ),
    ),
    Kind(
        "operator",
        "an op with kernels of its own: shape rule, NumPy function, forward and backward kernels",
        (
            "src/{package}/operators.py  signature, shape rule, NumPy function, launches",
            "src/{package}/templates/{op}.cl.j2  the kernels",
            "src/{package}/conformance.py  what the op is called with, and what it has to equal",
        ),
    ),
)
#: By name, in the order in which they are listed.
KINDS: Final = {kind.name: kind for kind in _KINDS}
