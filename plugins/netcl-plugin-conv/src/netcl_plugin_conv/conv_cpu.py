"""Convolutions on CPUs as products of a source that is read where it lies with packed panels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from netcl_core import Device, Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_conv.conv_geometry import Axis, Problem
from netcl_plugin_conv.conv_launch import Launcher, Padded

TEMPLATE: Final = "conv/conv.cl.j2"
#: Rows of a register tile of two vectors, by the bytes of a vector: with 64 a core has 32
#: registers, with fewer 16. Rows are stored together: a vector has as many elements at least.
_ROWS: Final = {64: 8, 32: 4, 16: 4}
#: Positions that a work-item multiplies with one panel.
_ITEM_ROWS: Final = 64
#: Rows of a panel that an item packs.
_BLOCK: Final = 64
#: Positions that are summed up at a time, so that their panel stays in the first cache.
_CHUNK: Final = 256
#: Terms of a product's innermost loop that are written out.
_UNROLL: Final = 4
#: Terms that an item sums up for all its rows before it goes on, in the first cache.
_TERMS: Final = 192
#: Parts of the positions per compute unit that a weight's gradient is summed up in.
_PARTS: Final = 4
#: Bytes of panels up to which all are multiplied with the same positions, one after another.
_PANELS: Final = 1 << 20
#: The size of an offset.
_LONG: Final = 8


class _Packed:
    """What the kernels of one problem have in common."""

    def __init__(self, request: Request, problem: Problem) -> None:
        self.request, self.problem = request, problem
        self.padded = Padded(request, problem)
        vector_bytes = min(_ROWS, key=lambda each: abs(each - request.device.vector_bytes))
        self.rows = _ROWS[vector_bytes]
        self.width = max(self.rows, vector_bytes // self.padded.size)
        self.tile = 2 * self.width
        self.launcher = Launcher(request, problem, TEMPLATE, self.padded.sizes, self.rows)
        #: The panels of all groups.
        self.panels = problem.groups * -(-problem.outputs // self.tile)

    @property
    def flags(self) -> dict[str, Any]:
        """The template's constants."""
        return {
            "width": self.width, "tile": self.tile, "rows": self.rows, "item_rows": _ITEM_ROWS,
            "rounds": self.width.bit_length() - 1, "block": _BLOCK,
            "chunk": _CHUNK, "unroll": _UNROLL, "terms": _TERMS,
        }  # fmt: skip

    def bytes(self, rows: int) -> int:
        """The size of so many rows of each panel."""
        return self.panels * rows * self.tile * self.padded.size

    def inner(self, axes: Sequence[Axis]) -> int:
        """Channels times taps."""
        return self.problem.channels * math.prod(axis.taps for axis in axes)

    def walk(self, axes: Sequence[Axis], bias: bool) -> list[Kernel]:
        """Pack the weights of a walk, and multiply."""
        launcher = self.launcher
        positions = self.problem.batch * math.prod(axis.count for axis in axes)
        blocks = self.inner(axes) // _BLOCK + 1
        packing = [*launcher.operands(1, *([2] if bias else [])),
                   launcher.scratch(1, "packed", written=True),
                   launcher.scratch(2, "offsets", "long", written=True)]  # fmt: skip
        flags = {**self.flags, "bias": bias}
        pack = launcher.kernel("pack", packing, self.panels * blocks, axes, flags)
        reading = [self.padded.buffer, launcher.scratch(1, "packed"),
                   launcher.scratch(2, "offsets", "long"), launcher.result()]  # fmt: skip
        items, slots = self.panels * -(-positions // _ITEM_ROWS), self.request.slots
        small = self.bytes(self.inner(axes)) <= _PANELS
        flags = {**self.flags, "panels_first": small}
        return [pack, launcher.kernel("multiply", reading, items, axes, flags, slots=slots)]


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution or a transposed one, by its walks."""
    packed = _Packed(request, problem)
    launches = packed.padded.launches()
    for axes in problem.walks:
        launches += packed.walk(axes, len(request.inputs) == 3)
    inner = max(packed.inner(axes) for axes in problem.walks)
    scratch = (packed.padded.bytes, packed.bytes(inner + 1), inner * _LONG)
    return Kernels(tuple(launches), scratch)


def weights(request: Request, problem: Problem) -> Kernels:
    """The gradient of a convolution's weight, from its source and the upstream gradient."""
    packed, axes = _Packed(request, problem), problem.walks[0]
    launcher, inner, panels = packed.launcher, packed.inner(axes), packed.panels
    volume = math.prod(axis.count for axis in axes)
    positions = problem.batch * volume
    parts = {"parts": _parts(request.device, panels, positions)}
    columns = [*launcher.operands(1), launcher.scratch(1, "packed", written=True),
               launcher.scratch(2, "offsets", "long", written=True),
               launcher.scratch(3, "taps", "long", written=True)]  # fmt: skip
    weigh = [packed.padded.buffer, launcher.scratch(1, "packed"),
             launcher.scratch(2, "offsets", "long"), launcher.scratch(3, "taps", "long"),
             launcher.scratch(4, "sums", written=True)]  # fmt: skip
    items = max(1, problem.batch) * panels * -(-volume // _BLOCK)
    launches = (
        *packed.padded.launches(),
        launcher.kernel("columns", columns, items, axes, packed.flags),
        launcher.kernel("weigh", weigh, panels * parts["parts"], axes, packed.flags, parts),
        launcher.kernel("assemble", [launcher.scratch(4, "sums"), launcher.result()],
                    panels * -(-inner // _BLOCK), axes, packed.flags, parts),
    )  # fmt: skip
    scratch = (packed.padded.bytes, packed.bytes(positions), positions * _LONG, inner * _LONG,
               packed.bytes(parts["parts"] * inner))  # fmt: skip
    return Kernels(launches, scratch)


def _parts(device: Device, panels: int, positions: int) -> int:
    """How many parts: so many that all compute units have something to do."""
    wanted = -(-_PARTS * device.compute_units // panels)
    return max(1, min(wanted, positions // _CHUNK))
