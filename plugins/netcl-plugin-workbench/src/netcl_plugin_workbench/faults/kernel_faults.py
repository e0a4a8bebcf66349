"""Kernel faults: wrong broadcasts, bounds and races in the kernels that an elementwise op becomes.

A fault is one change of the rendered source, made when the program is built, so that the
real kernel runs with its real arguments and one thing wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.runtime import programs

Direction = Literal["forward", "backward"]
#: Where an item begins and ends, and the loop over single elements: the template's own words.
_TAIL: Final = "for (; i < end; ++i)"
_STORES: Final = re.compile(
    r"\b(?P<slot>p_(?:out|grad)\d+)(?: \+ i\b|\[i\])"  # vstore16(v, 0, p_out0 + i), p_out0[i] = v
    r"|(?P<half>vstore_half\(.*, )i(?: \+ j)?(?=, p_(?:out|grad)\d+\))"
)


@final
@dataclass(frozen=True, slots=True)
class KernelFault:
    """A change of the kernel of one direction of an op; `place` is the input that it is about."""

    op: str
    kind: str
    direction: Direction
    place: int = 0

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        what = {
            "broadcast": f"input {self.place} read without its stride",
            "bound above": "one element too many",
            "bound below": "the last element missing",
            "race": "all work-items store at one place",
        }
        return f"{self.direction} kernel: {what[self.kind]}"

    def applied(self, source: str) -> str:
        """The source with the fault; as it is, if it is not of this kernel."""
        if f"kernel void {self.op}_{self.direction}(" not in source:
            return source
        if self.kind == "broadcast":
            return re.sub(rf"c\d+ \* t_in{self.place}_\d+", "0", source)
        if self.kind == "bound above":
            return source.replace(_TAIL, "for (; i <= end; ++i)")
        if self.kind == "bound below":
            return source.replace(_TAIL, "for (; i + 1 < end; ++i)")
        return _STORES.sub(_first_place, source)


def _first_place(match: re.Match[str]) -> str:
    if match["half"]:
        return f"{match['half']}0"
    return f"{match['slot']} + 0" if match[0].endswith("+ i") else f"{match['slot']}[0]"


def kernel_faults(record: AutogradPrimitive, inputs: int) -> Iterator[KernelFault]:
    """The kernel faults of a primitive with this many inputs; not all change every kernel."""
    directions: list[Direction] = ["forward"]
    if record.backward is not None:
        directions.append("backward")
    for direction in directions:
        for place in range(inputs) if inputs > 1 else ():
            yield KernelFault(record.name, "broadcast", direction, place)
        for kind in ("bound above", "bound below", "race"):
            yield KernelFault(record.name, kind, direction)


#: The kinds that only a simulator sees: on a device the values may still be right.
SIMULATED: Final = ("bound above", "race")


@contextmanager
def seeded(fault: KernelFault) -> Iterator[list[str]]:
    """Build every kernel with the fault; yields the sources that it changed so far."""
    build, changed = programs.build, list[str]()

    def spoiled(device: Any, source: str, who: str) -> Any:
        text = fault.applied(source)
        if text != source:
            changed.append(text)
        return build(device, text, who)

    programs.build = spoiled
    try:
        yield changed
    finally:
        programs.build = build
