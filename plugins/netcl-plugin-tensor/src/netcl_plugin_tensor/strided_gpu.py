"""Strided copies on GPUs: neighbouring items copy neighbours, each as much as one access takes.

Where neighbours in the source lie in another dimension than those in the target, tiles go through
local memory, so that both are read and written in the order of their memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

from netcl_core import DTYPES, Device, Kernel
from netcl_core.autograd import Geometry, Request, Settings, Space
from netcl_plugin_tensor.views import BITS, Dim, class_of, joined, other_than_whole

TEMPLATE: Final = "tensor/strided_gpu.cl.j2"
#: What an access takes at most, in bytes: more than that no GPU moves at once.
BYTES: Final = 16
#: The side of a tile, and how short its dimensions may get: those of fewer elements share the
#: lines of the cache as they are.
_SIDE: Final = 32
_SHORT: Final = 16
#: Work-items of a group, and of one that has a tile.
_GROUP: Final = 128
_TILE_GROUP: Final = 256
#: Up to here an int counts elements.
_INT_MAX: Final = (1 << 31) - 4096


@final
@dataclass(frozen=True, slots=True)
class Copied:
    """What is copied: dimensions, and where the first element lies in source and target."""

    dims: tuple[Dim, ...]
    source: int
    target: int

    @property
    def count(self) -> int:
        """How many elements."""
        return math.prod(dim.size for dim in self.dims)

    @property
    def across(self) -> int | None:
        """The dimension of neighbours in the source, where it and the last, that of neighbours in
        the target, are another and both long."""
        last = self.dims[-1]
        if last.target != 1 or last.source in (0, 1) or last.size < _SHORT:
            return None
        long = (i for i, dim in enumerate(self.dims[:-1]) if dim.source == 1 and dim.size >= _SHORT)
        return next(long, None)

    @property
    def index(self) -> str:
        """The type that counts elements, from the first in memory to the last."""
        reach = [sum(abs(dim[side]) * (dim.size - 1) for dim in self.dims) for side in (1, 2)]
        return "int" if max(self.source + reach[0], self.target + reach[1]) < _INT_MAX else "long"

    def width(self, most: int) -> int:
        """How many elements go together, a power of two: all their places are multiples of it."""
        *outer, last = self.dims
        if last.target != 1 or last.source not in (0, 1):
            return 1
        places = [self.target, last.size, *(dim.target for dim in outer)]
        if last.source:
            places += [self.source, *(dim.source for dim in outer)]
        return math.gcd(most, *places)

    def written(self, most: int) -> int:
        """How many neighbours may be written together where they are read one by one; 1: none."""
        *outer, last = self.dims
        if (last.source, last.target) != (1, 1) or last.size < most:
            return 1
        return math.gcd(most, self.target, *(dim.target for dim in outer))

    def in_vectors(self, width: int) -> Copied:
        """The same with the last dimension in vectors, of which the last may be a part.

        Its strides still count elements.
        """
        *outer, last = self.dims
        short = Dim(-(-last.size // width), last.source * width, last.target * width)
        return replace(self, dims=(*outer, short))


def _copied(source: Geometry, target: Geometry) -> Copied:
    return Copied(joined(source, target), source.offset, target.offset)


def settings(device: Device, source: Geometry, target: Geometry) -> dict[str, int]:
    """Accesses of 16 bytes, and tiles where they are needed and the device can have them."""
    copied = _copied(source, target)
    tiled = {"bytes": BYTES, "tile": _SIDE, "group": _TILE_GROUP}
    if copied.across is not None and _misfit(device, copied, tiled, 8) is None:
        return tiled
    groups = (size for size in (_GROUP, 64) if size <= device.max_work_group_size)
    return {"bytes": BYTES, "tile": 0, "group": next(groups, 1)}


def _misfit(device: Device, copied: Copied, settings: Settings, itemsize: int) -> str | None:
    """Why a device cannot copy so, or None."""
    side, group = settings["tile"], settings["group"]
    if group > device.max_work_group_size:
        return f"groups of {group} items, where {device} has {device.max_work_group_size}"
    if not side:
        return None
    wanted = side * (side + 1) * itemsize
    if copied.across is None:
        return "neighbours are neighbours in source and target"
    if group % side or side % (group // side):
        return f"{group} items do not fill rows of {side}"
    if wanted > device.local_mem_bytes:
        return f"{wanted} bytes of local memory, where {device} has {device.local_mem_bytes}"
    return None


def copy(
    dtype: str, source: Geometry, target: Geometry, buffers: Any, settings: Settings
) -> Kernel:
    """A launch that copies a view of the first buffer to one of the second, of the same shape."""
    copied, itemsize = _copied(source, target), DTYPES[dtype].itemsize
    index, group = copied.index, settings["group"]
    context: dict[str, Any] = {"bits": BITS[itemsize], "index": index}
    if settings["tile"]:
        return _in_tiles(copied, buffers, context, settings["tile"], group)
    most = max(1, settings["bytes"] // itemsize)
    width, length = copied.width(most), copied.dims[-1].size
    apart = width == 1 < copied.written(most)
    width = copied.written(most) if apart else width
    context |= {"width": width, "splat": copied.dims[-1].source == 0, "apart": apart}
    copied = copied.in_vectors(width)
    context["dims"] = len(copied.dims)
    count = copied.count
    numbers = [(index, count), (index, copied.source), (index, copied.target)]
    numbers += [(index, length)] if apart else []
    numbers += _numbers(copied.dims, index)
    return _launch("copy_vectors", (*buffers, *numbers), -(-count // group), group, context)


def _in_tiles(
    copied: Copied, buffers: Any, context: dict[str, Any], side: int, group: int
) -> Kernel:
    """Squares of the dimensions of neighbours, those of the last one first."""
    assert copied.across is not None  # or the settings would not fit
    index, last, other = copied.index, copied.dims[-1], copied.dims[copied.across]
    rest = [dim for i, dim in enumerate(copied.dims[:-1]) if i != copied.across]
    tiles = [-(-dim.size // side) for dim in (last, other)]
    context |= {"dims": len(rest), "side": side, "rows": group // side}
    numbers = [(index, copied.source), (index, copied.target), (index, last.size),
               (index, last.source), (index, other.size), (index, other.target)]  # fmt: skip
    numbers += [(index, number) for number in tiles]
    numbers += _numbers(rest, index)
    groups = math.prod((*tiles, *(dim.size for dim in rest)))
    return _launch("copy_tiles", (*buffers, *numbers), groups, group, context)


def _numbers(dims: Sequence[Dim], index: str) -> list[tuple[str, int]]:
    return [(index, number) for dim in dims for number in dim]


def _launch(entry: str, args: Any, groups: int, group: int, context: Any) -> Kernel:
    return Kernel(TEMPLATE, entry, args, (groups * group,), (group,), context)


def space(views_of: Callable[[Request], tuple[Geometry, Geometry]]) -> Space:
    """How much an access takes, the side of a tile, and how large groups are."""

    def fits(request: Request, settings: Settings) -> str | None:
        itemsize = DTYPES[request.output.dtype].itemsize
        return _misfit(request.device, _copied(*views_of(request)), settings, itemsize)

    return Space(
        {"bytes": (1, 4, 8, 16), "tile": (0, 16, 32), "group": (1, 64, 128, 256)},
        lambda request: settings(request.device, *views_of(request)),
        fits,
        lambda request: class_of(request, other_than_whole(*views_of(request))),
    )
