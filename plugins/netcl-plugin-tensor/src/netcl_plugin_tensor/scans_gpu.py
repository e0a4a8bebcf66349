"""cumsum where an item per line is too few: lines in blocks, by three launches or by one."""

from __future__ import annotations

from typing import Any, Final

from netcl_core import Kernel, Kernels
from netcl_core.autograd import Request, group_items
from netcl_plugin_tensor import geometry

TEMPLATE: Final = "tensor/scan_gpu.cl.j2"
#: Neighbours that an item of a group adds up, and bytes of a sum.
_EACH: Final = 8
_BYTES: Final = 8
#: Lines of fewer elements are one item's.
_SHORT: Final = 64
#: So many items keep a GPU busy.
_MANY: Final = 1 << 16


def is_divided(request: Request, lines: int, size: int, inner: int) -> bool:
    """Whether there is a better way than an item per line: neighbours, or too few lines."""
    busy = inner > 1 and 4 * lines >= _MANY
    return request.device.kind != "cpu" and size >= _SHORT and not busy


def cumsum(request: Request, lines: int, size: int, inner: int, context: dict[str, Any]) -> Kernels:
    """Lines of `size` elements that stand `inner` apart, in blocks."""
    pair = bool(context["compensated"])
    group = group_items(request.device, _BYTES * (_EACH + 2))
    if inner > 1:
        blocks = min(-(-size // (_SHORT // 2)), -(-_MANY // lines))
        span = -(-size // blocks)
        blocks = -(-size // span)
    else:
        while group * _EACH >= 2 * size:
            group //= 2
        span = group * _EACH
        blocks = -(-size // span)
    single = blocks == 1
    shape = {"group": group, "each": _EACH, "apart": inner > 1, "single": single}
    context = {**context, "pair": pair, **shape}
    outer = lines // inner
    numbers = [("ulong", n) for n in (outer, size, inner, blocks, span)]
    items: tuple[int, ...] = (lines * blocks * group,)
    local: tuple[int, ...] | None = (group,)
    if inner > 1:
        items, local = geometry.groups(request.device, lines * blocks)
    totals = () if single else (("scratch", 0),)
    args = (("in", 0), ("out", 0), *totals, *numbers)
    last = Kernel(TEMPLATE, "scan_blocks", args, items, local, context)
    if single:
        return Kernels((last,))
    args = (("in", 0), *totals, *numbers)
    first = Kernel(TEMPLATE, "scan_totals", args, items, local, context)
    starts = Kernel(
        TEMPLATE, "scan_starts", (*totals, ("ulong", blocks)), (lines * group,), (group,), context
    )
    return Kernels((first, starts, last), (_BYTES * lines * blocks,))
