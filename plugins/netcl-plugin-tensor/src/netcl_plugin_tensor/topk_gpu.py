"""The k best of long lines on devices with work-groups: the k-th is found by its digits."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Request
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.line_sort import plan_sort
from netcl_plugin_tensor.radix_sort import key_context
from netcl_plugin_tensor.strided import fill

TEMPLATE: Final = "tensor/topk.cl.j2"
#: Items of a group, as many as a digit has values, and neighbours of an item.
_GROUP: Final = 256
_EACH: Final = 16
#: Lines that are worth it, and of how many elements one at least is kept.
_LONG: Final = 1 << 14
_KEPT: Final = 8


def is_selected(request: Request, size: int, k: int) -> bool:
    """Whether to look for the k-th best takes less than to sort the lines."""
    device = request.device
    if device.kind == "cpu" or device.max_work_group_size < _GROUP:
        return False
    return _LONG <= size < 1 << 32 and 0 < k * _KEPT <= size


def plan_topk(request: Request) -> Kernels:
    """A pass for each digit, then one that counts and one that collects; these are sorted."""
    (x,), dim, k = request.inputs, request.attrs["dim"], request.attrs["k"]
    size, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    lines, blocks = x.size // size, -(-size // (_GROUP * _EACH))
    context = {**key_context(request), "group": _GROUP, "each": _EACH}
    width = DTYPES[x.dtype].itemsize * 8
    prefixes, missing, counts, better, equal, values, places, ordered, order = (
        ("scratch", i) for i in range(9)
    )
    numbers: Any = (("ulong", size), ("ulong", inner), ("ulong", blocks))
    of_blocks = ((lines * blocks * _GROUP,), (_GROUP,))
    of_lines = ((lines * _GROUP,), (_GROUP,))
    launches = [fill(request.device, Spec((lines * _GROUP,), "int32"), "zeros", ("int", 0), counts)]
    for shift in range(width - 8, -1, -8):
        here = {**context, "shift": shift, "first": shift == width - 8}
        read = (("in", 0), prefixes, counts, *numbers)
        launches.append(Kernel(TEMPLATE, "count_digits", read, *of_blocks, here))
        state = (prefixes, missing, counts, ("ulong", k))
        launches.append(Kernel(TEMPLATE, "choose_digit", state, *of_lines, here))
    limits: Any = (("in", 0), prefixes, missing, better, equal)
    sizes = (*numbers, ("ulong", k))
    launches += [
        Kernel(TEMPLATE, "count_best", (*limits, *sizes), *of_blocks, context),
        Kernel(TEMPLATE, "starts", (better, equal, ("ulong", blocks)), *of_lines, context),
        Kernel(TEMPLATE, "collect", (*limits, values, places, *sizes), *of_blocks, context),
    ]
    key_bytes = 4 if width <= 32 else 8
    kept = lines * k
    of_kept = (kept * width // 8, kept * 8)
    scratch = (lines * key_bytes, lines * 4, lines * _GROUP * 4, *(lines * blocks * 4,) * 2,
               *of_kept * 2)  # fmt: skip
    near = Spec((lines, k), x.dtype)
    attrs = {**request.attrs, "dim": 1, "k": k}
    asked = Request("sort", request.device, (near,), (near, Spec(near.shape, "int64")), attrs)
    moved: Any = {("in", 0): values, ("out", 0): ordered, ("out", 1): order}
    last = (ordered, order, places, ("out", 0), ("out", 1), ("ulong", k), ("ulong", inner),
            ("ulong", kept))  # fmt: skip
    placing = Kernel(TEMPLATE, "place", last, *geometry.groups(request.device, kept), context)
    return (
        Kernels(tuple(launches), scratch)
        .then(plan_sort(asked), moved)
        .then(Kernels((placing,)), {})
    )
