"""Which tiles a convolution has on a GPU, and in how many slices its terms are summed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, final

from netcl_core import Device

#: Bytes of results that an item keeps, and of what is kept of a column in local memory.
_REGISTERS: Final = 512
_COLUMN: Final = 24
#: How many slices of its terms a convolution may be summed in.
SLICES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


@final
@dataclass(frozen=True, slots=True)
class ConvTile:
    """A work-group's `bm` x `bn` results, `bk` terms deep, of which an item has `tm` x `tn`.

    `lm` x `ln` items make a patch whose quads of results adjoin (as in netcl-plugin-linalg).
    `speed` is what an item reaches, of what the largest tile does: it reads less from local memory
    for each product.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    lm: int
    ln: int
    speed: float

    def __str__(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk}"

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.bm * self.bn // (self.tm * self.tn)

    def count(self, rows: int, columns: int) -> int:
        """Tiles that cover a result."""
        return max(1, -(-rows // self.bm) * -(-columns // self.bn))

    def misfit(self, device: Device, size: int) -> str | None:
        """Why a device cannot have such work-groups for elements of `size` bytes, or None."""
        local = 2 * (self.bm + self.bn + 8) * self.bk * size + _COLUMN * self.bn
        if local > device.local_mem_bytes:
            return f"{local} bytes of local memory, where {device} has {device.local_mem_bytes}"
        if self.items > device.max_work_group_size:
            return f"groups of {self.items} items, where {device} has {device.max_work_group_size}"
        if self.tm * self.tn * size > _REGISTERS:
            return f"{self.tm * self.tn} results of {size} bytes in an item's registers"
        return None


TILES: Final[Mapping[str, ConvTile]] = {
    str(tile): tile
    for tile in (
        ConvTile(128, 128, 8, 16, 8, 8, 4, 1.0),
        ConvTile(128, 64, 16, 8, 8, 4, 8, 0.9),
        ConvTile(64, 128, 16, 8, 8, 4, 8, 0.9),
        ConvTile(64, 64, 16, 8, 4, 4, 8, 0.75),
        ConvTile(32, 32, 16, 4, 4, 4, 8, 0.45),
        ConvTile(16, 16, 8, 4, 4, 4, 4, 0.2),
    )
}


@lru_cache(maxsize=4096)
def chosen(
    rows: int, columns: int, terms: int, groups: int, device: Device, size: int
) -> Mapping[str, Any]:
    """The tile and the slices that should take the least time for `groups` products of a size."""
    fitting = [tile for tile in TILES.values() if tile.misfit(device, size) is None]
    return fastest(fitting or [_LAST], rows, columns, terms, groups, device.compute_units)


_LAST: Final = list(TILES.values())[-1]


class RatedTile(Protocol):
    """A tile whose work-groups have `bm` x `bn` results, in steps of `bk` terms."""

    @property
    def bm(self) -> int: ...
    @property
    def bn(self) -> int: ...
    @property
    def bk(self) -> int: ...
    @property
    def speed(self) -> float:
        """Its products in a time, of those that the fastest tile makes."""


@final
@dataclass(frozen=True, slots=True)
class Costs:
    """What else takes time, by what the fastest tile would multiply in it.

    `start`: terms while a group begins and stores what it has. `launch`: products of a compute unit
    during the launch that adds slices up. `sum`: terms while a result of a slice is written and
    read again. And `beside` are the work-groups that a compute unit runs at a time: one waits while
    another works.
    """

    start: int = 64
    launch: int = 1 << 19
    sum: int = 40
    beside: int = 2


def fastest(
    tiles: Sequence[RatedTile],
    rows: int,
    columns: int,
    terms: int,
    groups: int,
    units: int,
    costs: Costs = Costs(),
) -> Mapping[str, Any]:
    """The tile and the slices that should take the least time on so many compute units."""
    best, least = {"tile": str(tiles[0]), "slices": 1}, math.inf
    for tile in tiles:
        for slices in SLICES:
            if slices > 1 and slices * tile.bk * 4 > terms:
                break
            time = _time(tile, slices, rows, columns, terms, groups, units, costs)
            if time < least:
                best, least = {"tile": str(tile), "slices": slices}, time
    return best


def _time(
    tile: RatedTile,
    slices: int,
    rows: int,
    columns: int,
    terms: int,
    groups: int,
    units: int,
    costs: Costs,
) -> float:
    """In no unit: what the busiest compute unit multiplies, and the sums of the slices."""
    tiles = -(-rows // tile.bm) * -(-columns // tile.bn) * groups
    turns = -(-tiles * slices // units)
    idle = math.sqrt(max(1.0, costs.beside / max(1, turns)))
    steps = -(-terms // (slices * tile.bk))
    each = tile.bm * tile.bn * (steps * tile.bk + costs.start) / tile.speed
    multiplied = turns * each * idle
    if slices == 1:
        return multiplied
    return multiplied + costs.launch + costs.sum * slices * rows * columns * groups / units
