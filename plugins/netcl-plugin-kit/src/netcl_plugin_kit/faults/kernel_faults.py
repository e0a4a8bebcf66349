"""Kernel faults: wrong broadcasts, bounds and races in the kernels that an elementwise op becomes.

A fault is one change of the rendered source, made when the kernel is launched, so that the
real kernel runs with its real arguments and one thing wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Literal, final

from netcl_core import Device
from netcl_core.autograd import AutogradPrimitive
from netcl_core.inspect.streams import (
    Launch,
    Stream,
    StreamWrapper,
    shared_kernel,
    stream_of,
    use_stream,
)

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


@final
class FaultyStream(StreamWrapper):
    """A stream that runs every kernel with a fault; `changed` are the sources that it changed."""

    def __init__(self, inner: Stream, fault: KernelFault) -> None:
        super().__init__(inner)
        self.fault = fault
        self._spoiled: dict[str, str] = {}

    @property
    def changed(self) -> list[str]:
        """The sources with the fault, as far as they have been asked for."""
        return [text for source, text in self._spoiled.items() if text != source]

    def launch(self, launch: Launch, buffers: Sequence[Any], scalars: Sequence[bytes] = ()) -> None:
        source = launch.source
        text = self._spoiled.get(source)
        if text is None:
            text = self._spoiled[source] = self.fault.applied(source)
        self.inner.launch(launch if text == source else _of(launch, text), buffers, scalars)


def _of(launch: Launch, source: str) -> Launch:
    """The same launch of another source."""
    kernel = shared_kernel(launch.kernel.device, source, launch.entry, launch.kernel.recipe)
    return Launch(kernel, launch.global_size, launch.local_size, launch.constants, launch.who)


def seeded(fault: KernelFault, device: Device) -> AbstractContextManager[FaultyStream]:
    """Run every kernel of a device with the fault."""
    return use_stream(FaultyStream(stream_of(device), fault))
