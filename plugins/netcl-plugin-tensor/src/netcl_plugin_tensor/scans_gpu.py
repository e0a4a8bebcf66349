"""Scans where an item per line is too few: lines in blocks, by three launches or by one."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from netcl_core import Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.reducing import group_items

Args: TypeAlias = tuple[tuple[str, int], ...]
TEMPLATE: Final = "tensor/scan_gpu.cl.j2"
#: Bytes of neighbours that an item of a group joins.
_EACH: Final = 64
#: Lines of fewer elements are one item's.
_SHORT: Final = 64
#: So many items keep a GPU busy, and so many work-groups for each of its units.
_MANY: Final = 1 << 16
_GROUPS: Final = 8
#: Elements that an int counts, those of a last block included.
_INT_MAX: Final = (1 << 31) - (1 << 20)


def is_divided(request: Request, lines: int, size: int, inner: int) -> bool:
    """Whether there is a better way than an item per line: neighbours, or too few lines."""
    busy = inner > 1 and 4 * lines >= _MANY
    return request.device.kind != "cpu" and size >= _SHORT and not busy


def plan(request: Request, shape: tuple[int, int, int], width: int,
         sources: Args, targets: Args, context: dict[str, Any]) -> Kernels:  # fmt: skip
    """Lines of `shape` (before, along, after the axis) in blocks; what is joined has `width` bytes.

    `sources` and `targets` are the kernels' arguments for operands and results.
    """
    outer, size, inner = shape
    lines, each = outer * inner, _EACH // width
    group = group_items(request.device, width * (each + 2))
    if inner > 1:
        blocks = min(-(-size // (_SHORT // 2)), -(-_MANY // lines))
        span = -(-size // blocks)
        blocks = -(-size // span)
    else:
        while group * each >= 2 * size:
            group //= 2
        tiles = -(-size // (group * each))
        blocks = min(tiles, -(-_GROUPS * request.device.compute_units // lines))
        span = -(-tiles // blocks) * group * each
        blocks = -(-size // span)
    single = blocks == 1
    index = "int" if lines * size < _INT_MAX else "long"
    context = {**context, "group": group, "each": each, "apart": inner > 1, "single": single,
               "index": index}  # fmt: skip
    numbers = [(index, n) for n in (outer, size, inner, blocks, span)]
    items: tuple[int, ...] = (lines * blocks * group,)
    local: tuple[int, ...] | None = (group,)
    if inner > 1:
        items, local = geometry.groups(request.device, lines * blocks)
    totals = () if single else (("scratch", 0),)
    args = (*sources, *targets, *totals, *numbers)
    last = Kernel(TEMPLATE, "scan_blocks", args, items, local, context)
    if single:
        return Kernels((last,))
    args = (*sources, *totals, *numbers)
    first = Kernel(TEMPLATE, "scan_totals", args, items, local, context)
    starts = Kernel(
        TEMPLATE, "scan_starts", (*totals, (index, blocks)), (lines * group,), (group,), context
    )
    return Kernels((first, starts, last), (width * lines * blocks,))
