"""The launches that find the first extreme of lines, with its place, by many items a line."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Request
from netcl_plugin_tensor import geometry

TEMPLATE: Final = "tensor/extremes.cl.j2"
#: Lines of fewer elements are one item's.
_SHORT: Final = 32
#: Items of a group at most and at least, and elements that one of them looks at, at least.
_MOST, _LEAST, _EACH = 256, 32, 8
#: Groups of a compute unit, and items of all, that keep a GPU busy.
_GROUPS: Final = 4
_MANY: Final = 1 << 16


def is_divided(request: Request, size: int) -> bool:
    """Whether there is a better way than an item per line."""
    enough = request.device.max_work_group_size >= _MOST
    return request.device.kind != "cpu" and size >= _SHORT and enough


def _power(least: int) -> int:
    return 1 << max(0, least - 1).bit_length()


def plan_extremes(request: Request, shape: tuple[int, int, int], largest: bool,
                  values: bool, nan_first: bool = True) -> Kernels:  # fmt: skip
    """Of `shape` (before, along, after the axis) the values, if wanted, and the places.

    Output 0 has the values and the next one the places.
    """
    outer, size, inner = shape
    lines, apart = outer * inner, inner > 1
    dtype = DTYPES[request.inputs[0].dtype]
    context = {"compute": dtype.compute, "floating": dtype.floating, "largest": largest,
               "nan_first": nan_first}  # fmt: skip
    if apart:
        slices = max(1, min(-(-_MANY // lines), size // _EACH))
    else:
        wanted = -(-_GROUPS * request.device.compute_units // lines)
        slices = max(1, min(wanted, size // (_MOST * _EACH)))
    span = -(-size // slices)
    slices = -(-size // span)
    results: Any = [("out", 0), ("out", 1)] if values else [("out", 0)]
    partial: Any = [("scratch", 0), ("scratch", 1)]
    numbers = [("ulong", number) for number in (lines, size, inner, slices, span)]
    shape_of = _launched(span, apart, lines * slices)
    single = slices == 1
    first = {"storage": dtype.storage, "out_storage": dtype.storage if single else dtype.compute}
    targets = results if single else partial
    kernel = Kernel(
        TEMPLATE, "extremes", (("in", 0), *targets, *numbers), *shape_of[:2],
        {**context, **first, "again": False, "values": values or not single, "apart": apart,
         "group": shape_of[2]},
    )  # fmt: skip
    if single:
        return Kernels((kernel,))
    items, local, group = _launched(slices, False, lines)
    numbers = [("ulong", number) for number in (lines, slices, 1, 1, slices)]
    last = Kernel(
        TEMPLATE, "extremes", (*partial, *results, *numbers), items, local,
        {**context, "storage": dtype.compute, "out_storage": dtype.storage, "again": True,
         "values": values, "apart": False, "group": group},
    )  # fmt: skip
    size_of = {"double": 8, "long": 8}.get(dtype.compute, 4)
    return Kernels((kernel, last), (lines * slices * size_of, lines * slices * 8))


def _launched(span: int, apart: bool, parts: int) -> tuple[tuple[int, ...], Any, int]:
    """The items of all, of a group, and the same as a number: an item or a group a part."""
    if apart:
        size = geometry.GROUP
        return (-(-parts // size) * size,), (size,), size
    group = min(_MOST, max(_LEAST, _power(-(-span // 4))))
    return (parts * group,), (group,), group


def shape_along(x: Spec, dim: int | None) -> tuple[int, int, int]:
    """Before, along and after an axis; None: all elements in one line."""
    if dim is None or not x.shape:
        return 1, x.size, 1
    return math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])
