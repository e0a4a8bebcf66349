"""The kernels that standardise blocks of rows on CPUs: an item of work per block, each way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Request
from netcl_plugin_tensor.reducing import SUM, reduction_kernels
from netcl_plugin_tensor.row_blocks import CPU_WIDTH, rows_of_an_item

TEMPLATE: Final = "tensor/norm_blocks.cl.j2"


def plan(entry: str, request: Request, attrs: Mapping[str, Any], flags: dict[str, Any]) -> Kernels:
    """The launch; `attrs` are `dims`, `eps` and `centered`, `flags` what it has besides x.

    Output 0 is written by rows; of `sums` in the flags each is added up in a further output.
    """
    x, device, sums = request.inputs[0], request.device, flags["sums"]
    shape, dtype, slots = x.shape, DTYPES[x.dtype], request.slots
    rows, size = math.prod(shape[: -attrs["dims"]]), math.prod(shape[-attrs["dims"] :])
    turns = rows_of_an_item(device, rows, size, summed=bool(sums))
    blocks = -(-rows // turns)
    buffers: list[Any] = [*(("in", i) for i in range(len(request.inputs))), ("out", 0)]
    buffers += [("scratch", i) for i in range(len(sums))]
    numbers = [("ulong", rows), ("ulong", size), ("ulong", turns), (dtype.compute, attrs["eps"])]
    context = {
        "storage": dtype.storage, "acc": dtype.compute, "width": CPU_WIDTH,
        "centered": attrs["centered"], **flags, **slots.context(CPU_WIDTH),
    }  # fmt: skip
    kernel = Kernel(TEMPLATE, entry, slots.args(buffers, numbers), (blocks,), (1,), context)
    return summed(request, kernel, len(sums), Spec((blocks, size), dtype.wide))


def summed(request: Request, kernel: Kernel, sums: int, parts: Spec) -> Kernels:
    """The launch, and one that reduces the sums that it leaves in its scratch memory."""
    kernels = Kernels((kernel,), (parts.size * DTYPES[parts.dtype].itemsize,) * sums)
    if not sums:
        return kernels
    dtype = request.output.dtype
    finish = reduction_kernels(SUM, request.device, parts, (0,), dtype, pairs=sums)
    places = {("in", i): ("scratch", i) for i in range(sums)}
    return kernels.then(finish, places | {("out", i): ("out", 1 + i) for i in range(sums)})
