"""Products that fill no tile, on GPUs: with few rows or columns, and batches of small matrices.

Such a product reads more than it multiplies. One operand is the long one, whose lines follow each
other or run along the inner dimension; the other has few lines. Long sums are those of strips
(gemm_strips.py). With short ones work-items read both operands where they lie, several of them
share the inner dimension, and their sums are added up in local memory.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_linalg.gemm import INT_MAX, Product
from netcl_plugin_linalg.gemm_strips import strips

TEMPLATE: Final = "linalg/gemm_thin.cl.j2"
#: Lines of the short operand that an item multiplies with, and up to which a strip beats tiles that
#: are mostly empty; how large small matrices are, and how long the sums without strips.
THIN: Final = 8
FEW: Final = 32
_SMALL, _SHALLOW = 32, 64
#: With more lines than an item's: lines of the long operand at least, and its elements at most,
#: which stay in the cache for items that read them again.
_LONG: Final = 256
_OFTEN: Final = 1 << 23
#: Terms of a sum from which on few lines of the long operand are worth slices of tiles.
_DEEP: Final = 8192
_GROUP: Final = 256
#: Elements that are read at once.
_QUAD: Final = 4


def fits(product: Product, most: int = THIN) -> bool:
    """Whether a product is better read as it lies than in tiles, with at most so many lines."""
    few, many = sorted((product.rows, product.columns))
    thin = few <= most and (many >= _SMALL or product.inner <= _DEEP)
    thin = thin and (few <= THIN or (many >= _LONG and product.inner * many <= _OFTEN))
    small = many <= _SMALL and product.inner <= _SHALLOW
    return (small or thin) and 1 in _steps(_turned(product)) and product.inner > 0


def along(product: Product) -> bool:
    """Whether the lines of the long operand run along the inner dimension."""
    return _turned(product).b_inner == 1


def _turned(product: Product) -> Product:
    """With few rows: where there are fewer columns, the product of the transposes."""
    most = FEW if product.inner <= _SHALLOW else product.columns
    if product.columns > FEW or product.rows <= most:
        return product
    return replace(
        product, rows=product.columns, columns=product.rows,
        a_row=product.b_column, a_inner=product.b_inner, a_start=product.b_start,
        b_inner=product.a_inner, b_column=product.a_row, b_start=product.a_start,
        batch=tuple((size, b, a) for size, a, b in product.batch),
    )  # fmt: skip


def _steps(product: Product) -> tuple[int, int]:
    """Of the long operand: along the inner dimension, and from line to line."""
    return product.b_inner, product.b_column


def thin(request: Request, given: Product, bias: bool) -> Kernels:
    """The launch of a product that `fits`: of strips, unless its sums are short."""
    if given.inner <= _SHALLOW:
        return read_as_they_lie(request, given, bias)
    product = _turned(given)
    return strips(request, product, product is not given, bias)


def read_as_they_lie(request: Request, given: Product, bias: bool) -> Kernels:
    """The launch of a product that `fits`, whatever its sums; for short ones."""
    product, dtype = _turned(given), DTYPES[request.output.dtype]
    turned = product is not given
    dot = product.b_inner == 1 and not (product.b_column == 1 and product.columns > 1)
    units, batch = request.device.compute_units, math.prod(size for size, _, _ in product.batch)
    rows = min(THIN if product.columns > _SMALL else _QUAD, product.rows)
    blocks = -(-product.rows // rows)
    lines = _QUAD
    while dot and lines > 1 and batch * blocks * -(-product.columns // lines) < 2 * units:
        lines //= 2
    tasks = batch * blocks * -(-product.columns // lines)
    group = min(_GROUP, request.device.max_work_group_size)
    size = 8 if dtype.compute in ("double", "long") else 4
    while group > 1 and group * rows * lines * size > request.device.local_mem_bytes // 2:
        group //= 2
    share = 1  # so many items share a sum: there are items for all units, and each has terms enough
    steps = product.inner // (_QUAD if dot else 1)
    while 2 * share <= min(group, steps // 2) and tasks * share < 8 * _GROUP * units:
        share *= 2
    strides = [step for _, *pair in product.batch for step in pair]
    largest = max(product.rows, product.inner, product.columns, product.a_row, product.a_inner,
                  product.b_inner, product.b_column)  # fmt: skip
    long_line = product.b_column if dot else product.b_inner
    even = [product.b_start, long_line, *strides[1::2]]
    short_even = [product.a_row, product.a_start, *strides[::2]]
    context: dict[str, Any] = {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "mask": request.output.dtype == "bool",
        "index": "int" if largest < INT_MAX else "long",
        "bias": bias,
        "turned": turned,
        "dot": dot,
        "rows": rows,
        "edge_rows": product.rows % rows != 0,
        "lines": lines,
        "edge": (product.inner if dot else product.columns) % _QUAD != 0,
        "edge_lines": product.columns % lines != 0,
        "aligned": not any(step % _QUAD for step in even),
        "quads": dot and product.a_inner == 1,
        "short_aligned": not any(step % _QUAD for step in short_even),
        "share": share,
        "group": group,
        "batch_dims": len(product.batch),
    }
    even_results = product.columns % _QUAD == 0 or dot or turned
    flat = even_results and context["aligned"] and context["short_aligned"]
    context |= request.slots.context(_QUAD, flat)
    index = context["index"]
    numbers: list[tuple[str, Any]] = [(index, getattr(product, name)) for name in (
        "rows", "columns", "inner", "a_row", "a_inner", "b_inner", "b_column")]  # fmt: skip
    numbers += [("ulong", number) for number in (tasks, product.a_start, product.b_start)]
    numbers += [("ulong", number) for triple in product.batch for number in triple]
    buffers: list[tuple[str, Any]] = [("in", 0), ("in", 1), *([("in", 2)] if bias else [])]
    args = request.slots.args([*buffers, ("out", 0)], numbers)
    count = -(-tasks // (group // share))
    return Kernels((Kernel(TEMPLATE, "gemm_thin", args, (count * group,), (group,), context),))
