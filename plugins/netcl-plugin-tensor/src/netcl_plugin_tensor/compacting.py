"""The places of what is not 0, found on the device where that is not the host."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Requirements

TEMPLATE: Final = "tensor/compact.cl.j2"
#: Items of a group, and neighbours of an item, a bit of 16 each.
_GROUP: Final = 256
_EACH: Final = 16
_BLOCK: Final = _GROUP * _EACH


def _kernel(entry: str, groups: int, *args: Any) -> Kernel:
    context = {"group": _GROUP, "each": _EACH}
    return Kernel(TEMPLATE, entry, args, (groups * _GROUP,), (_GROUP,), context)


def _blocks(flags: Spec) -> int:
    return -(-flags.size // _BLOCK)


def _plan_starts(request: Request) -> Kernels:
    flags, counts = request.inputs[0], ("scratch", 0)
    blocks = _blocks(flags)
    counting = _kernel("count_true", blocks, ("in", 0), counts, ("ulong", flags.size))
    adding = _kernel("starts", 1, counts, ("out", 0), ("ulong", blocks))
    return Kernels((counting, adding), (8 * blocks,))


def _starts(flags: Any) -> Any:
    counts = [int(np.count_nonzero(flags[i : i + _BLOCK])) for i in range(0, flags.size, _BLOCK)]
    return np.cumsum([0, *counts], dtype=np.int64)


def _plan_places(request: Request) -> Kernels:
    flags = request.inputs[0]
    args = (("in", 0), ("in", 1), ("out", 0), ("ulong", flags.size))
    return Kernels((_kernel("compact", _blocks(flags), *args),))


_WITH_GROUPS: Final = Requirements(
    reject=lambda request: (
        None
        if request.device.max_work_group_size >= _GROUP
        else f"the device has groups of fewer than {_GROUP} items"
    )
)
STARTS: Final = Operator(
    name="starts_of_true",
    bind=lambda flags: ((flags,), {}),
    infer=lambda flags: Spec((_blocks(flags) + 1,), "int64"),
    reference=_starts,
    implementations=(Implementation("starts_of_true", "blocks", _plan_starts, _WITH_GROUPS),),
    doc="starts_of_true(flags): how many of a bool vector are set before each block, and in all.",
)
COMPACT: Final = Operator(
    name="compact",
    bind=lambda flags, starts, size: ((flags, starts), {"size": size}),
    infer=lambda flags, starts, size: Spec((size,), "int64"),
    reference=lambda flags, starts, size: np.flatnonzero(flags),
    implementations=(Implementation("compact", "blocks", _plan_places, _WITH_GROUPS),),
    doc="compact(flags, starts, size): the places of a bool vector that are set, `size` in all.",
)
#: What composites that look for places are made of.
PARTS: Final = (STARTS, COMPACT)


def is_on_host(x: Any) -> bool:
    """Whether the host looks through a tensor sooner than its device would be asked."""
    return not x.device.has_kernels or x.device.kind == "cpu"


def true_places(x: Any) -> Any:
    """The flat places (int64) of the elements that are not 0; waits for how many there are."""
    if is_on_host(x):
        return Tensor.from_host(np.flatnonzero(x.to_host()), x.device)
    if not x.size:
        return Tensor.zeros((0,), "int64", x.device)
    flags = ag.reshape(x if x.dtype == "bool" else ag.ne(x, 0), (x.size,))
    starts = STARTS(flags)
    return COMPACT(flags, starts, int(starts.to_host()[-1]))


def masked_places(x: Any, index: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Of `x[mask]` the flat places that are picked, and its shape; None for any other index."""
    if isinstance(index, tuple):
        (index,) = index if len(index) == 1 else (None,)
    if not isinstance(index, Tensor) or index.dtype != "bool" or not index.ndim:
        return None
    if index.shape != x.shape[: index.ndim]:
        return None
    rest = x.shape[index.ndim :]
    places, each = true_places(index.detach()), math.prod(rest)
    shape = (places.size, *rest)
    if rest:
        steps = ag.arange(each, dtype="int64", device=x.device)
        places = ag.reshape(ag.add(ag.reshape(ag.mul(places, each), (-1, 1)), steps), (-1,))
    return places, shape
