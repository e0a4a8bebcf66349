"""What a CPU's registers hold of a product: the one place that says so for all products on CPUs.

A register tile of some rows by some vectors of columns takes a register per vector of results, one
per vector of a row of B and one for an element of A. A tile that takes more than there are is kept
in memory, which costs half of the speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import DTYPES, Device
from netcl_core.autograd import Request, Space

_BYTES: Final = {"float": 4, "int": 4, "double": 8, "long": 8}


@final
@dataclass(frozen=True, slots=True)
class RegisterTile:
    """`rows` of A by `vectors` of columns, of `vector_bytes` each.

    With a `depth` an item adds up so many terms for all its rows and columns before it goes on, up
    to `span` rows by `span` columns, so that what it reads of A and B stays in its core's caches;
    with 0 all terms of one tile after another.
    """

    rows: int
    vectors: int
    vector_bytes: int
    depth: int = 0
    span: int = 0

    def __str__(self) -> str:
        return f"{self.rows}x{self.vectors}x{self.vector_bytes}"

    @property
    def registers(self) -> int:
        """The registers of a core with such vectors: twice as many where they have 64 bytes."""
        return 32 if self.vector_bytes == 64 else 16

    def width(self, dtype: str) -> int:
        """The elements of a vector of what `dtype` is computed in."""
        return self.vector_bytes // size_of(dtype)


#: 8 rows by 2 vectors are for the 32 registers of AVX-512, and were measured without blocks. The
#: others take the 16 registers of AVX2 and SSE: 6 rows by 2 vectors leave less of matrices of a
#: power of two over than 4 by 3. A block of a panel of B has 16 KiB then, half of a first cache,
#: and what an item reads of A and B before it goes on 192 KiB. These are constants, since OpenCL
#: tells the size of one cache, which is the second for one runtime and the last for another.
TILES: Final[Mapping[str, RegisterTile]] = {
    str(tile): tile
    for tile in (
        RegisterTile(8, 2, 64),
        RegisterTile(6, 2, 32, 256, 96),
        RegisterTile(4, 3, 32, 256, 96),
        RegisterTile(6, 2, 16, 256, 96),
    )
}


def size_of(dtype: str) -> int:
    """The bytes of an element of what `dtype` is computed in."""
    return _BYTES[DTYPES[dtype].compute]


def default_tile(device: Device) -> RegisterTile:
    """The first whose vectors are the device's, or the closest to them."""
    return min(TILES.values(), key=lambda tile: abs(tile.vector_bytes - device.vector_bytes))


def tile_of(request: Request) -> RegisterTile:
    """The tile in the request's settings, or (an op that has none) the device's."""
    chosen: Any = request.settings.get("tile")
    return default_tile(request.device) if chosen is None else TILES[chosen]


#: For implementations whose plan asks `tile_of`.
SPACE: Final = Space(
    {"tile": tuple(TILES)}, lambda request: {"tile": str(default_tile(request.device))}
)
