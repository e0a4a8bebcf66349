"""The plans of attention on CPUs: an item per block of queries, or per block of keys.

Vectors go along the queries, so that the maximum and the sum of a row need nothing from other
lanes, and key and value are read where they lie, one element for a whole vector.
"""

from __future__ import annotations

from typing import Any, Final

from netcl_plugin_tensor.reducing import SUM, reduction_kernels

from netcl_core import DTYPES, Kernels, Spec
from netcl_core.autograd import Request
from netcl_plugin_linalg.attention_kernels import AttentionJob, job_of
from netcl_plugin_linalg.gemm_tiles import default_tile

TEMPLATE: Final = "linalg/attention.cl.j2"
BACKWARD: Final = "linalg/attention_backward.cl.j2"
#: By the registers of a core and the vectors of queries in a block, of which there are no more:
#: rows of a register tile, and keys that are scored before their values are weighed.
_FORWARD: Final = {
    32: {1: (8, 64), 2: (8, 64), 3: (6, 48), 4: (6, 48)},
    16: {1: (8, 64), 2: (6, 48), 3: (4, 48)},
}
#: The same of the backward, where rows are also queries: they divide a block, and a vector.
_BACKWARD: Final = (4, 64)
#: Bytes of a block's features at most: it stays in the cache of its core.
_BLOCK_BYTES: Final = 1 << 15
#: Items per compute unit that keep all of them busy.
_PER_UNIT: Final = 4


def _settings(job: AttentionJob, back: bool) -> dict[str, Any]:
    """The sizes of blocks and tiles."""
    size = DTYPES[DTYPES[job.request.inputs[0].dtype].wide].itemsize
    fitting = default_tile(job.request.device)
    width, tiles = max(_BACKWARD[0], fitting.vector_bytes // size), _FORWARD[fitting.registers]
    widest = max(job.shape.size, job.shape.value_size)
    most = _BLOCK_BYTES // (widest * size * width)
    vectors = max(1, min(max(tiles), most, -(-job.shape.queries // width)))
    rows, tile = _BACKWARD if back else tiles[vectors]
    return {"width": width, "vectors": vectors, "rows": rows, "tile": tile, "most": max(tiles)}


def plan_on_cpus(request: Request) -> Kernels:
    """The results, and the logarithms of the rows' sums if they are kept."""
    job = job_of(request)
    settings = _settings(job, back=False)
    block = settings["width"] * settings["vectors"]
    items = job.shape.count * -(-job.shape.queries // block)
    outputs: list[tuple[str, Any]] = [("out", 0), ("out", 1)][: 1 + request.keep]
    kernel = job.kernel(TEMPLATE, "attention_forward", [*job.inputs, *outputs], (), items, None,
                        settings["width"], {**settings, "keep": request.keep})  # fmt: skip
    return job.laid_out(Kernels((kernel,)))


def plan_gradients_on_cpus(request: Request) -> Kernels:
    """The gradients of query, key and value (outputs 0 to 2).

    An item adds up those of its keys over all queries. With several items per matrix each leaves
    its part of the query's gradient behind, and these are added up at the end.
    """
    job = job_of(request)
    shape, device, query = job.shape, request.device, request.inputs[0]
    settings = _settings(job, back=True)
    tiles = -(-shape.keys // settings["tile"])
    splits = max(1, min(tiles, -(-device.compute_units * _PER_UNIT // shape.count)))
    per_split = -(-tiles // splits) * settings["tile"]
    splits = max(1, -(-shape.keys // per_split)) if per_split else 1
    dtype = DTYPES[query.dtype]
    wide = DTYPES[dtype.wide]
    width = settings["width"]
    padded = [-(-width_of_row // width) * width for width_of_row in (shape.size, shape.value_size)]
    parts = Spec((splits, shape.count * shape.queries * shape.size), dtype.wide)
    direct = splits == 1
    scratch = [
        max(1, shape.count * shape.keys * width_of_row * wide.itemsize) for width_of_row in padded
    ]
    buffers = [*job.inputs, ("out", 0) if direct else ("scratch", 2), ("out", 1), ("out", 2)]
    context = {**settings, "padded": padded[0], "padded_value": padded[1],
               "direct": direct}  # fmt: skip
    kernel = job.kernel(BACKWARD, "attention_backward", [*buffers, ("scratch", 0), ("scratch", 1)],
                        (("ulong", splits), ("ulong", per_split)), shape.count * splits, None,
                        width, context)  # fmt: skip
    if direct:
        return job.laid_out(Kernels((kernel,), tuple(scratch)))
    kernels = Kernels((kernel,), (*scratch, parts.size * wide.itemsize))
    total = reduction_kernels(SUM, device, parts, (0,), query.dtype)
    whole = kernels.then(total, {("in", 0): ("scratch", 2), ("out", 0): ("out", 0)})
    return job.laid_out(whole)
