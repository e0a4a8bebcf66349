"""The form of a reduction for CPUs: long runs per work-item, in wide vectors, no local memory."""

from __future__ import annotations

from typing import Any, Final

from netcl_core import Device, Kernel
from netcl_plugin_tensor.reducing_job import ReducedSpace, Reduction

TEMPLATE: Final = "tensor/reduce.cl.j2"
_WIDTH: Final = 16
#: Vectors that one item adds up at most, and how many of them in a row: sums of such
#: blocks are added in turn, so that the rounding error stays near that of a tree.
_VECTORS: Final = 512
_BLOCK: Final = 16


def slices(job: Reduction, device: Device) -> int:
    """How many items share the reduction of one output."""
    space = job.space
    per_output = space.reduced * (1 if space.inner_lost else _WIDTH)
    wanted = -(-per_output // (_VECTORS * _WIDTH))
    return max(1, min(wanted, _indices(space)))


def _indices(space: ReducedSpace) -> int:
    """The length of the index space that slices cut: the outer lost dimensions, or the run."""
    if space.inner_lost and len(space.lost) > 1:
        return space.reduced // space.lost[-1][0]
    return space.reduced


def kernel(job: Reduction, device: Device, slices: int) -> Kernel:
    """The launch that reduces each of so many slices."""
    space = job.space
    kept, inner_lost = space.kept, space.inner_lost
    lost = space.lost[:-1] if inner_lost else space.lost
    total = _indices(space)
    numbers = [space.outputs, total, slices, -(-total // slices)]
    numbers += [number for pair in (*kept, *lost) for number in pair]
    if inner_lost:
        numbers.append(space.lost[-1][0] if space.lost else 1)
        items = space.outputs * slices
    else:
        items = space.outputs // kept[-1][0] * -(-kept[-1][0] // _WIDTH) * slices
    context: dict[str, Any] = {
        "width": _WIDTH,
        "aligned": False,
        "counter": "size_t",
        "block": _BLOCK,
        "kept": len(kept),
        "lost": len(lost),
        "inner": "reduced" if inner_lost else "kept",
    }
    return job.kernel(TEMPLATE, numbers, context, items)
