"""The plan of a general matrix product on GPUs: tiles in local memory, and which tiles when.

The kernel is portable: it assumes no width of sub-groups, and tiles are taken by what the device
says of its local memory and work-groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, final

from netcl_core import DTYPES, ZEROS_BYTES, Kernel, Kernels
from netcl_core.autograd import Implementation, Request, Requirements, Space
from netcl_plugin_linalg.gemm import INT_MAX, Product, columns_of, reader
from netcl_plugin_linalg.gemm_strips import FENCE
from netcl_plugin_linalg.gemm_thin import FEW, fits, thin

TEMPLATE: Final = "linalg/gemm_gpu.cl.j2"
#: Elements that are read at once: where lines do not begin at a multiple, they are one by one.
_QUAD: Final = 4
#: Slices of the inner dimension at most, and how short they may get: where tiles nearly fill the
#: device without, only a long dimension is worth the sums that have to be written and read again.
_MOST_SLICES: Final = 64
_SHORT, _LONG = 32, 512


@final
@dataclass(frozen=True, slots=True)
class Tile:
    """A work-group's `bm` x `bn` results, `bk` deep, of which an item has `tm` x `tn`.

    `lm` x `ln` items make a patch whose quads of results adjoin.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    lm: int
    ln: int

    def __str__(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk}"

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.bm * self.bn // (self.tm * self.tn)

    def count(self, rows: int, columns: int) -> int:
        """Tiles that cover a result; sums of rows need one even where there are no columns."""
        return -(-rows // self.bm) * max(1, -(-columns // self.bn))

    def misfit(self, request: Request) -> str | None:
        """Why a device cannot have such work-groups, or None."""
        size = _SIZES[DTYPES[request.output.dtype].compute]
        device, wanted = request.device, 2 * (self.bm + self.bn) * self.bk * size
        if wanted > device.local_mem_bytes:
            return f"{wanted} bytes of local memory, where {device} has {device.local_mem_bytes}"
        if self.items > device.max_work_group_size:
            return f"groups of {self.items} items, where {device} has {device.max_work_group_size}"
        if self.tm * self.tn * size > _REGISTERS:
            return f"{self.tm * self.tn} results of {size} bytes in an item's registers"
        return None


_SIZES: Final = {"float": 4, "int": 4, "double": 8, "long": 8}
#: Bytes of results that an item keeps.
_REGISTERS: Final = 512
#: Each with the part of the compute units that its groups have to occupy for it to be taken. The
#: first five were measured on an H200; the others are for devices with little of everything.
TILES: Final[Mapping[str, tuple[Tile, float]]] = {
    str(tile): (tile, filled)
    for tile, filled in (
        (Tile(128, 128, 8, 16, 8, 8, 4), 1.5),
        (Tile(128, 64, 16, 8, 8, 4, 8), 0.9),
        (Tile(64, 64, 32, 8, 4, 4, 8), 0.75),
        (Tile(32, 32, 32, 4, 4, 4, 8), 0),
        (Tile(32, 32, 16, 4, 4, 4, 8), 0),
        (Tile(16, 16, 16, 4, 4, 4, 4), 0),
        (Tile(8, 8, 8, 4, 4, 2, 2), 0),
        (Tile(4, 4, 4, 4, 4, 1, 1), 0),
    )
}


def default_settings(request: Request, product: Product) -> dict[str, Any]:
    """The tile, and in how many slices the inner dimension is summed apart."""
    units, batch = request.device.compute_units, _batch(product)
    for tile, filled in TILES.values():
        groups = tile.count(product.rows, product.columns) * batch
        ragged = product.inner % tile.bk and tile.bk > 16  # then smaller steps waste less
        empty = tile.bm * tile.bn >= 2 * product.rows * product.columns and tile.bm > 4
        taken = groups >= filled * units and not (ragged and filled == 0) and not empty
        if taken and tile.misfit(request) is None:
            break
    return {"tile": str(tile), "slices": _slices(product.inner, groups, units)}


def _slices(inner: int, groups: int, units: int) -> int:
    """So many that two and a half groups go to each compute unit."""
    shortest = _LONG if groups >= 0.75 * units else _SHORT
    wanted = min(_MOST_SLICES, round(2.5 * units / groups), inner // shortest)
    return max(1, wanted if wanted <= 8 else wanted // 16 * 16 or 8)


def _batch(product: Product) -> int:
    return math.prod(size for size, _, _ in product.batch)


def on_gpus(
    operator: str, product_of: Callable[[Request], Product], row_sums: bool = False
) -> Implementation:
    """The implementation for GPUs of an op that is a product; a third input is its bias."""

    def plan(request: Request) -> Kernels:
        product, bias = product_of(request), len(request.inputs) == 3
        if not row_sums and fits(product, FEW):
            return thin(request, product, bias)
        return tiled(request, product, bias, row_sums)

    space = Space(
        {"tile": tuple(TILES), "slices": (*range(1, 9), *range(16, _MOST_SLICES + 1, 16))},
        lambda request: default_settings(request, product_of(request)),
        lambda request, settings: TILES[settings["tile"]][0].misfit(request),
    )
    slots = not row_sums
    return Implementation(operator, "tiles in local memory", plan,
                          Requirements(device_kinds=("gpu",)), priority=1, prologue=slots,
                          epilogue=slots, stretch=columns_of, rereads=True, space=space,
                          reads=reader(product_of, _QUAD))  # fmt: skip


def tiled(
    request: Request, product: Product, bias: bool = False, row_sums: bool = False
) -> Kernels:
    """The launches of a product by the request's settings; `bias` and `row_sums` as of `gemm`."""
    tile, _ = TILES[request.settings["tile"]]
    length = -(-product.inner // (request.settings["slices"] * tile.bk)) * tile.bk or tile.bk
    slices = max(1, -(-product.inner // length))
    groups = tile.count(product.rows, product.columns) * _batch(product)
    context = _context(request, product, tile, bias, row_sums)
    numbers = _numbers(product, length, slices, context["index"])
    results: list[tuple[str, Any]] = [("in", 2)] if bias else []
    results += [("out", 0), ("out", 1)] if row_sums else [("out", 0)]
    operands = [("in", 0), ("in", 1)]

    def launch(phase: str, buffers: list[tuple[str, Any]], count: int, slots: Any) -> Kernel:
        filled = {**context, **slots.context(4, context["c_aligned"]), "phase": phase}
        items = tile.items
        return Kernel(TEMPLATE, f"gemm_{phase}", slots.args(buffers, numbers),
                      (count * items,), (items,), filled)  # fmt: skip

    if slices == 1:
        return Kernels((launch("whole", operands + results, groups, request.slots),))
    parts = [("scratch", 0), ("scratch", 1)] if row_sums else [("scratch", 0)]
    size = _SIZES[context["compute"]]
    scratch = [groups * slices * tile.bm * tile.bn * size]
    scratch += [-(-product.rows // tile.bm) * tile.bm * slices * size] if row_sums else []
    if groups * 4 <= ZEROS_BYTES and FENCE.unmet_everywhere(request.device) is None:
        joint = launch("joint", [*operands, *parts, ("zeros", 0), *results], groups * slices,
                       request.slots)  # fmt: skip
        return Kernels((replace(joint, standard=FENCE.standard),), tuple(scratch))
    before, after = request.slots.split()
    return Kernels(
        (
            launch("part", operands + parts, groups * slices, before),
            launch("finish", parts + results, groups, after),
        ),
        tuple(scratch),
    )


def _context(
    request: Request, product: Product, tile: Tile, bias: bool, row_sums: bool
) -> dict[str, Any]:
    """What the template needs besides the slots and the phase."""
    dtype = DTYPES[request.output.dtype]
    a_along, b_along = product.a_inner == 1, product.b_inner == 1 and product.b_column != 1
    a_aligned = _aligned(product.inner if a_along else product.rows, _lines(product)[0],
                         [a for _, a, _ in product.batch])  # fmt: skip
    b_aligned = _aligned(product.inner if b_along else product.columns, _lines(product)[1],
                         [b for _, _, b in product.batch])  # fmt: skip
    ragged = product.rows % tile.bm or product.columns % tile.bn or product.inner % tile.bk
    largest = max(product.rows, product.columns, product.inner, *_lines(product))
    return {
        **asdict(tile),
        "items": tile.items,
        "storage": dtype.storage,
        "compute": dtype.compute,
        "apart": request.device.platform.startswith("NVIDIA"),
        "mask": request.output.dtype == "bool",
        "index": "int" if largest < INT_MAX else "long",
        "batch_dims": len(product.batch),
        "bias": bias,
        "row_sums": row_sums,
        "a_along": a_along,
        "b_along": b_along,
        "edge": bool(ragged or not a_aligned or not b_aligned or not product.inner),
        "a_aligned": a_aligned,
        "b_aligned": b_aligned,
        "c_aligned": product.columns % 4 == 0,
    }


def _lines(product: Product) -> tuple[int, int]:
    """From one line of each operand to the next; along a line elements are contiguous."""
    a_along, b_along = product.a_inner == 1, product.b_inner == 1 and product.b_column != 1
    return (
        product.a_row if a_along else product.a_inner,
        product.b_column if b_along else product.b_inner,
    )


def _aligned(extent: int, line: int, strides: list[int]) -> bool:
    """Whether every line, and every batch's first one, begins and ends at a whole quad."""
    return not any(number % 4 for number in (extent, line, *strides))


def _numbers(product: Product, length: int, slices: int, index: str) -> list[tuple[str, Any]]:
    sizes = (product.rows, product.columns, product.inner, *_lines(product), length, slices)
    numbers: list[tuple[str, Any]] = [(index, size) for size in sizes]
    numbers += [("ulong", product.a_start), ("ulong", product.b_start)]
    return numbers + [("ulong", number) for triple in product.batch for number in triple]
