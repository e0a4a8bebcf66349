"""The launches of a stable merge sort of lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Request

TEMPLATE: Final = "tensor/sort.cl.j2"
#: Elements that an item orders by insertion.
_BLOCK: Final = 32
#: Elements that an item merges at once, and that it has to do at least.
_CHUNK: Final = {"cpu": 2048, "gpu": 16}
_LEAST: Final = {"cpu": 4096, "gpu": 1}
Buffers = tuple[tuple[str, int], tuple[str, int]]


def order_of(request: Request) -> dict[str, Any]:
    """What the templates are told of dtype and order."""
    dtype, attrs = DTYPES[request.inputs[0].dtype], request.attrs
    return {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "floating": dtype.floating,
        "largest": attrs["largest"],
        "nan_first": attrs["nan_first"],
    }


def plan_merges(request: Request) -> Kernels:
    """Blocks in order, then runs of twice the size until one is left; the last writes results.

    The runs lie in turn in two pairs of buffers, of which the results are one if they hold whole
    lines.
    """
    (x,), dim, k = request.inputs, request.attrs["dim"], request.attrs["k"]
    size = x.shape[dim] if x.shape else 1
    inner = math.prod(x.shape[dim + 1 :])
    lines = x.size // max(size, 1)
    kind = "cpu" if request.device.kind == "cpu" else "gpu"
    merges = max(0, math.ceil(size / _BLOCK) - 1).bit_length()
    out: Buffers = (("out", 0), ("out", 1))
    scratch: list[Buffers] = [(("scratch", i), ("scratch", i + 1)) for i in (0, 2)]
    pairs = [out, scratch[0]] if k == size else scratch
    targets = [pairs[(merges - i) % 2] for i in range(merges)] + [out]
    context = {**order_of(request), "block": _BLOCK}

    def launch(entry: str, buffers: Sequence[Any], last: bool, step: int, *rest: Any) -> Kernel:
        kept = k if last else size
        parts = -(-kept // step) if entry == "merge_runs" else -(-size // step)
        per_item = max(1, _LEAST[kind] // min(step, size))
        near = inner if entry == "sort_blocks" else 1
        apart = inner if last else 1
        numbers = [size, kept, near, apart, parts, lines * parts, per_item, *rest]
        args = (*buffers, *(("ulong", number) for number in numbers))
        items = (-(-lines * parts // per_item),)
        return Kernel(TEMPLATE, entry, args, items, None, context)

    launches = [launch("sort_blocks", (("in", 0), *targets[0]), not merges, _BLOCK)]
    for i in range(merges):
        run = _BLOCK << i
        chunk = min(_CHUNK[kind], 2 * run)
        buffers = (*targets[i], *targets[i + 1])
        launches.append(launch("merge_runs", buffers, i + 1 == merges, chunk, run, chunk))
    sizes = (x.size * DTYPES[x.dtype].itemsize, x.size * 8)
    needed = sizes * (2 if k != size else 1) if merges else ()
    return Kernels(tuple(launches), needed)
