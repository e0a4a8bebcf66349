"""The plans of attention on GPUs: a work-group per block of queries, or per block of keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from netcl_plugin_tensor.reducing import load_width

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_linalg.attention_kernels import AttentionJob, job_of

TEMPLATE: Final = "linalg/attention_groups.cl.j2"
AHEAD: Final = "linalg/attention_ahead.cl.j2"
#: Rows that a work-group owns, those that they meet at a time, and the items of a row and of a
#: column of it: the first that the device has local memory and items for, and that there are rows
#: enough for.
_BLOCKS: Final = ((64, 64, 16, 16), (32, 32, 8, 8), (16, 64, 16, 4), (16, 16, 4, 4), (4, 4, 1, 1))
_FEW: Final = 16
#: Features that products of rows take from local memory at a time, and elements for products
#: with weights.
_DEPTH: Final = 16
_POOL: Final = 2048


@dataclass(frozen=True, slots=True)
class _Group:
    """A work-group: its rows, its items, and the local memory for what they share."""

    own: int
    others: int
    across: int
    down: int
    widest: int

    @property
    def items(self) -> int:
        return self.across * self.down

    @property
    def run(self) -> int:
        """The rows at a time of a product with weights, a power of two."""
        fitting = max(1, _POOL // self.widest)
        return min(self.others, 1 << (fitting.bit_length() - 1))

    @property
    def pool(self) -> int:
        return max(_DEPTH * (self.own + self.others + 2), self.run * self.widest)

    @property
    def elements(self) -> int:
        """The elements of local memory that it takes in all."""
        return self.pool + self.own * (self.others + 1) + self.own * self.across

    @property
    def context(self) -> dict[str, Any]:
        return {
            "own": self.own, "others": self.others, "across": self.across, "down": self.down,
            "group": self.items, "run": self.run, "pool": self.pool, "depth": _DEPTH,
        }  # fmt: skip


def _group(job: AttentionJob, rows: int) -> _Group:
    device, shape = job.request.device, job.shape
    itemsize = DTYPES[DTYPES[job.request.inputs[0].dtype].wide].itemsize
    groups = [_Group(*block, max(shape.size, shape.value_size)) for block in _BLOCKS]
    return next(
        (
            group for group in groups
            if (group.own < 2 * rows or group.own <= _FEW)
            and group.items <= device.max_work_group_size
            and group.elements * itemsize <= device.local_mem_bytes
        ),
        groups[-1],
    )  # fmt: skip


def _kernel(
    job: AttentionJob, entry: str, buffers: list[tuple[str, Any]], rows: int, **flags: Any
) -> Kernel:
    group = _group(job, rows)
    width = load_width(DTYPES[job.request.inputs[0].dtype].itemsize)
    context = {
        **group.context,
        "wide": math.gcd(job.shape.size, width),
        "value_wide": math.gcd(job.shape.value_size, width),
        **flags,
    }
    items = job.shape.count * -(-rows // group.own) * group.items
    return job.kernel(TEMPLATE, entry, buffers, (), items, (group.items,), 1, context)


def plan_on_gpus(request: Request) -> Kernels:
    """The results, and the logarithms of the rows' sums if they are kept."""
    job = job_of(request)
    outputs: list[tuple[str, Any]] = [("out", 0), ("out", 1)][: 1 + request.keep]
    buffers = [*job.inputs, *outputs]
    entry = "attention_forward_groups"
    kernel = _kernel(job, entry, buffers, job.shape.queries, keep=request.keep)
    return job.laid_out(Kernels((kernel,)))


def plan_gradients_on_gpus(request: Request) -> Kernels:
    """The gradients of query, key and value (outputs 0 to 2): no two work-groups add to one."""
    job = job_of(request)
    shape, query = job.shape, request.inputs[0]
    dtype = DTYPES[query.dtype]
    *given, out, logsums, grad = job.inputs
    rows = shape.count * shape.queries
    context = {"storage": dtype.storage, "acc": dtype.compute, "value_size": shape.value_size,
               "wide": math.gcd(shape.value_size, load_width(dtype.itemsize)),
               "pitched": job.pitched}  # fmt: skip
    args = (out, grad, ("scratch", 0), ("ulong", rows), *job.paired_rows)
    ahead = Kernel(AHEAD, "attention_ahead", args, (rows,), None, context)
    operands = [*given, logsums, grad, ("scratch", 0)]
    launches = [
        ahead,
        _kernel(job, "attention_query_gradient", [*operands, ("out", 0)], shape.queries),
    ]
    if shape.keys:
        outs = [("out", 1), ("out", 2)]
        launches.append(_kernel(job, "attention_key_gradients", [*operands, *outs], shape.keys))
    return job.laid_out(Kernels(tuple(launches), (rows * DTYPES[dtype.wide].itemsize,)))
