"""The plan of a general matrix product: pack B into panels, then one register-tiled kernel.

Shapes that reach the hardware's limits on CPUs: a register tile of some rows by some vectors of
columns (gemm_tiles.py), B packed as [columns / tile][K][tile], A read where it lies, or packed as
[rows / tile][K][tile's rows] where its rows do not lie together, are narrower than what is computed
in, or are read by many panels.
With few rows each item packs the panel that it multiplies with, and the product is one launch.
Both operands may be stored transposed; batches have strides of their own, so that a broadcast
batch is read without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from netcl_plugin_tensor.views import whole

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import NO_SLOTS, Geometry, Implementation, Request
from netcl_plugin_linalg.gemm_tiles import SPACE, RegisterTile, size_of, tile_of

TEMPLATE: Final = "linalg/gemm.cl.j2"
#: Rows of A that one work-item multiplies with one panel, usually.
_ITEM_ROWS: Final = 64
#: Rows of A up to which, and products up to which contiguous rows of B are read where they lie:
#: to pack them would take longer than it saves.
_FEW_ROWS: Final = 48
_FEW_PRODUCTS: Final = 1 << 20
#: Rows up to which an item packs its panel itself, which saves a launch; and how many items a core
#: must have before one owns so many rows; otherwise several pack the same panel for themselves.
_OWN_ROWS: Final = 128
_PER_UNIT: Final = 2
#: Panels of B from which on A is packed, if its rows are not read as they lie; and if they could
#: be, with a tile that goes by blocks: then so many panels read them.
_PANELS: Final = 2
_MANY_PANELS: Final = 24
#: Items per core below which they are made smaller than the tile's span.
_ITEMS: Final = 8
#: Columns up to which contiguous rows of A are multiplied with contiguous columns of B.
_DOT: Final = 16
#: Terms that are added up before they are added to others, where there are more than twice as many
#: and a tile does not go by blocks: of a million equal terms one after another 1 % is lost.
_RUN: Final = 2048
#: Sizes up to which an int counts rows and columns, those of the last tile included.
INT_MAX: Final = (1 << 31) - 4096
#: Elements of B up to which each tile gathers its own.
_GATHER: Final = 1 << 10


@dataclass(frozen=True)
class Product:
    """`out[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, with strides in elements.

    `batch` has `(size, stride of A, stride of B)` per batch dimension of the output; `a_start` and
    `b_start` are the places of the first elements.
    """

    rows: int
    columns: int
    inner: int
    a_row: int
    a_inner: int
    b_inner: int
    b_column: int
    batch: tuple[tuple[int, int, int], ...] = ()
    a_start: int = 0
    b_start: int = 0


def gemm(
    request: Request,
    product: Product,
    bias: bool = False,
    row_sums: bool = False,
    often: bool = False,
) -> Kernels:
    """The launches of a product.

    With `bias` input 2 is added to each row; with `row_sums` output 1 gets the sum of each row of
    A, of which there is one batch then. With `often` somebody repeats the last launch for other A,
    and what is packed of B is packed before it.
    """
    dtype, chosen = DTYPES[request.output.dtype], tile_of(request)
    size, width = size_of(request.output.dtype), chosen.width(request.output.dtype)
    tile, rows = chosen.vectors * width, chosen.rows
    phase = "multiply" if row_sums else _phase(product, tile)
    panels = -(-product.columns // tile)
    groups = -(-product.rows // rows)
    count = math.prod(size for size, _, _ in product.batch)
    few, units = product.rows <= _OWN_ROWS, request.device.compute_units
    blocked = chosen.depth > 0 and phase == "multiply"
    apart = product.a_inner != 1 or dtype.storage != dtype.compute
    again = blocked and not few and not often and panels >= _MANY_PANELS
    a_packed = row_sums or (phase == "multiply" and ((apart and panels >= _PANELS) or again))
    own = phase == "multiply" and not a_packed and few and not often
    many = count * panels >= _PER_UNIT * units
    item_rows = _item_rows(product, chosen, _OWN_ROWS if own and many else 0)
    blocks = -(-product.rows // item_rows)
    strip = 1
    if blocked and not own:  # several panels, as long as there is something to do for all cores
        strip = max(1, min(chosen.span // tile, count * blocks * panels // (_ITEMS * units)))
    context = {
        "storage": dtype.storage,
        "mask": request.output.dtype == "bool",
        "compute": dtype.compute,
        "width": width,
        "vectors": chosen.vectors,
        "tile": tile,
        "rows": rows,
        "batch_dims": len(product.batch),
        "bias": bias,
        "row_sums": row_sums,
        "a_unit": product.a_inner == 1,
        "a_packed": a_packed,
        "own": own,
        "narrow": phase == "direct" and product.columns < tile,
        "depth": chosen.depth if blocked else 0,
        "run": _RUN if product.inner > 2 * _RUN and not blocked else 0,
        "held": max(chosen.span**2, (_OWN_ROWS + rows) * tile) if blocked else 0,
    }
    numbers = [("ulong", getattr(product, name)) for name in (
        "rows", "columns", "inner", "a_row", "a_inner", "b_inner", "b_column", "a_start",
        "b_start")]  # fmt: skip
    numbers += [("ulong", item_rows), *([("ulong", strip)] if blocked else [])]
    numbers += [("ulong", number) for triple in product.batch for number in triple]
    slots = request.slots
    packed = phase == "multiply"
    buffers: list[tuple[str, Any]] = [("scratch", 1) if a_packed else ("in", 0)]
    buffers += [("in", 1)] if own or not packed else []
    buffers += [("scratch", 0)] if packed else []
    buffers += [("in", 2)] if bias else []
    buffers += [("out", 0)]
    items = groups if phase == "dot" else -(-panels // strip) * blocks
    multiply = Kernel(TEMPLATE, f"gemm_{phase}", slots.args(buffers, numbers), (count * items,),
                      None, {**context, **slots.context(width), "phase": phase})  # fmt: skip
    each = count * max(1, product.inner) * size
    if not packed:
        return Kernels((multiply,))
    if own:
        return Kernels((multiply,), (each * blocks * panels * tile,))
    taken = [("in", 0), ("scratch", 1)] if a_packed else []
    items = count * (panels + groups if a_packed else panels)
    taken += [("in", 1), ("scratch", 0), *([("out", 1)] if row_sums else [])]
    pack = Kernel(TEMPLATE, "gemm_pack", (*taken, *numbers), (items,),
                  None, {**context, **NO_SLOTS.context(width), "phase": "pack"})  # fmt: skip
    scratch = (each * panels * tile, each * groups * rows)[: 1 + a_packed]
    return Kernels((pack, multiply), scratch)


def _item_rows(product: Product, tile: RegisterTile, own: int) -> int:
    """The rows of an item, in whole tiles: `own` if it is given, else equal shares of all rows."""
    if own or not tile.depth:
        return -(-(own or _ITEM_ROWS) // tile.rows) * tile.rows
    blocks = max(1, -(-product.rows // tile.span))
    return max(1, -(-product.rows // (blocks * tile.rows))) * tile.rows


def on_cpus(
    operator: str,
    label: str,
    product_of: Callable[[Request], Product],
    row_sums: bool = False,
) -> Implementation:
    """The implementation for CPUs of an op that is a product; a third input is its bias."""

    def plan(request: Request) -> Kernels:
        return gemm(request, product_of(request), len(request.inputs) == 3, row_sums)

    return Implementation(operator, label, plan, epilogue=not row_sums, space=SPACE,
                          stretch=None if row_sums else columns_of,
                          reads=reader(product_of))  # fmt: skip


def reader(
    product_of: Callable[[Request], Product], multiple: int = 1
) -> Callable[[Request], Sequence[bool]]:
    """What a product reads as it lies: lines of neighbours that begin at multiples of so many."""

    def reads(request: Request) -> Sequence[bool]:
        flags = [False] * len(request.layouts)
        for i in (0, 1):
            alone = [layout if k == i else None for k, layout in enumerate(request.layouts)]
            if alone[i] is not None:
                try:
                    product = product_of(replace(request, layouts=tuple(alone)))
                except NoLinesError:
                    continue
                flags[i] = _has_lines(product, i, multiple)
        return flags

    return reads


class NoLinesError(ValueError):
    """Raised where the rows of an operand do not follow each other by one stride."""


def _has_lines(product: Product, i: int, multiple: int) -> bool:
    own = (product.a_row, product.a_inner), (product.b_inner, product.b_column)
    steps = [*own[i], *(axis[1 + i] for axis in product.batch)]
    if 1 not in own[i] or min(steps) < 0:
        return False
    steps.remove(1)
    start = (product.a_start, product.b_start)[i]
    return not any(step % multiple for step in (*steps, start)) and max(steps) < INT_MAX


def _phase(product: Product, tile: int) -> str:
    """How B is read: packed before (`multiply`), or where it lies if that costs less."""
    if product.a_inner == product.b_inner == 1 and product.columns <= _DOT:
        return "dot"
    elements = product.inner * product.columns
    readable = product.columns >= tile or product.b_inner == product.columns
    few = product.rows <= _FEW_ROWS or product.rows * elements <= _FEW_PRODUCTS
    if product.b_column == 1 and readable and few:
        return "direct"
    return "gather" if elements <= _GATHER else "multiply"


def columns_of(request: Request) -> int:
    """The elements of a row of the result, which a vector of the kernel never leaves."""
    return request.output.shape[-1] if request.output.shape else 1


def batches(a: Geometry, b: Geometry, out: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """The batch dimensions of a product with the strides of both operands (0: broadcast)."""
    batches_of = []
    for axis, size in enumerate(out):
        from_end = len(out) - axis + 2
        batches_of.append((size, _batch_stride(a, from_end), _batch_stride(b, from_end)))
    return tuple(triple for triple in batches_of if triple[0] != 1)


def _batch_stride(of: Geometry, from_end: int) -> int:
    axis = len(of.shape) - from_end
    return 0 if axis < 0 or of.shape[axis] == 1 else of.strides[axis]


def places_of(request: Request, i: int) -> Geometry:
    """Where the elements of an operand lie."""
    return request.layout(i) or whole(request.inputs[i].shape)
