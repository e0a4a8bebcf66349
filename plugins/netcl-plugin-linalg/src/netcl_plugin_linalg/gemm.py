"""The plan of a general matrix product: pack B into panels, then one register-tiled kernel.

Shapes that reach the hardware's limits on CPUs: a register tile of some rows by
two vectors of columns, B packed as [columns / tile][K][tile], A read where it
lies. Both operands may be stored transposed; batches have strides of their own,
so that a broadcast batch is read without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from netcl_core import Kernel, Kernels, Spec
from netcl_core.autograd import NO_SLOTS, Request

TEMPLATE: Final = "linalg/gemm.cl.j2"
_STORAGE: Final = {"float16": "half", "float32": "float", "float64": "double", "int32": "int",
                   "int64": "long", "uint8": "uchar", "bool": "uchar"}  # fmt: skip
_COMPUTE: Final = {"half": "float", "uchar": "int"}
_BYTES: Final = {"float": 4, "int": 4, "double": 8, "long": 8}
#: Rows of A that one work-item multiplies with one panel.
_ITEM_ROWS: Final = 64
#: Bytes of B up to which its contiguous rows are read where they lie, without packing.
_DIRECT: Final = 1 << 21
#: Columns up to which contiguous rows of A are multiplied with contiguous columns of B.
_DOT: Final = 16
#: Elements of B up to which each tile gathers its own.
_GATHER: Final = 1 << 10


@dataclass(frozen=True)
class Product:
    """`out[b, m, n] = sum over k of A[b, m, k] * B[b, k, n]`, with strides in elements.

    `batch` has `(size, stride of A, stride of B)` per batch dimension of the output.
    """

    rows: int
    columns: int
    inner: int
    a_row: int
    a_inner: int
    b_inner: int
    b_column: int
    batch: tuple[tuple[int, int, int], ...] = ()


def gemm(request: Request, product: Product, bias: bool = False, row_sums: bool = False) -> Kernels:
    """The launches of a product.

    With `bias` input 2 is added to each row; with `row_sums` output 1 gets the sum of each row of
    A, of which there is one batch then.
    """
    storage = _STORAGE[request.output.dtype]
    compute = _COMPUTE.get(storage, storage)
    width = 4 if request.device.kind == "gpu" else 64 // _BYTES[compute]
    tile, rows = 2 * width, 8 if request.device.kind != "gpu" else 4
    panels = -(-product.columns // tile)
    count = math.prod(size for size, _, _ in product.batch)
    blocks = -(-product.rows // _ITEM_ROWS)
    context = {
        "storage": storage,
        "mask": request.output.dtype == "bool",
        "compute": compute,
        "width": width,
        "tile": tile,
        "rows": rows,
        "item_rows": _ITEM_ROWS,
        "batch_dims": len(product.batch),
        "bias": bias,
        "row_sums": row_sums,
        "a_unit": product.a_inner == 1,
        "narrow": False,
    }
    numbers = [("ulong", getattr(product, name)) for name in (
        "rows", "columns", "inner", "a_row", "a_inner", "b_inner", "b_column")]  # fmt: skip
    numbers += [("ulong", number) for triple in product.batch for number in triple]
    slots = request.slots
    phase = _phase(product, tile, _BYTES[compute], row_sums)
    items = -(-product.rows // rows) if phase == "dot" else panels * blocks
    in_place = phase != "multiply"
    buffers: list[tuple[str, Any]] = [("in", 0), ("in", 1) if in_place else ("scratch", 0)]
    buffers += [("in", 2)] if bias else []
    buffers += [("out", 0), ("out", 1)] if row_sums else [("out", 0)]
    multiply = Kernel(TEMPLATE, f"gemm_{phase}", slots.args(buffers, numbers),
                      (count * items,), None,
                      {**context, **slots.context(width), "phase": phase,
                       "narrow": phase == "direct" and product.columns < tile})  # fmt: skip
    if in_place:
        return Kernels((multiply,))
    pack = Kernel(TEMPLATE, "gemm_pack", (("in", 1), ("scratch", 0), *numbers),
                  (count * panels,), None,
                  {**context, **NO_SLOTS.context(width), "phase": "pack"})  # fmt: skip
    scratch = count * panels * max(1, product.inner) * tile * _BYTES[compute]
    return Kernels((pack, multiply), (scratch,))


def _phase(product: Product, tile: int, size: int, row_sums: bool) -> str:
    """How B is read: packed before (`multiply`), or where it lies if that costs less."""
    if product.a_inner == product.b_inner == 1 and product.columns <= _DOT and not row_sums:
        return "dot"
    elements = product.inner * product.columns
    readable = product.columns >= tile or product.b_inner == product.columns
    if product.b_column == 1 and readable and elements * size <= _DIRECT:
        return "direct"
    return "gather" if elements <= _GATHER else "multiply"


def columns_of(request: Request) -> int:
    """The elements of a row of the result, which a vector of the kernel never leaves."""
    return request.output.shape[-1] if request.output.shape else 1


def batches(a: Spec, b: Spec, out: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """The batch dimensions of a product with the strides of both operands (0: broadcast)."""
    found = []
    for axis, size in enumerate(out):
        from_end = len(out) - axis + 2
        found.append((size, _batch_stride(a, from_end), _batch_stride(b, from_end)))
    return tuple(triple for triple in found if triple[0] != 1)


def _batch_stride(spec: Spec, from_end: int) -> int:
    axis = spec.ndim - from_end
    if axis < 0 or spec.shape[axis] == 1:
        return 0
    return math.prod(spec.shape[axis + 1 :])
