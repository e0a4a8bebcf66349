"""The places of what is not 0, found on the device where that is not the host."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request
from netcl_plugin_tensor import geometry

_CHUNK: Final = 256


def _bind(counts: Any, size: int) -> Any:
    return (counts,), {"size": size}


def _plan(request: Request) -> Kernels:
    count = request.inputs[0].size
    chunk = geometry.chunk(request.device, _CHUNK)
    args = (("in", 0), ("out", 0), ("ulong", count), ("ulong", chunk))
    sizes = geometry.groups(request.device, -(-count // chunk))
    return Kernels((Kernel("tensor/compact.cl.j2", "compact", args, *sizes, {}),))


COMPACT: Final = Operator(
    name="compact",
    bind=_bind,
    infer=lambda counts, size: Spec((size,), "int64"),
    reference=lambda counts, size: np.flatnonzero(np.diff(counts, prepend=0)),
    implementations=(Implementation("compact", "element by element", _plan),),
    doc="compact(counts, size): the places where running counts grow, of which there are `size`.",
)


def is_on_host(x: Any) -> bool:
    """Whether the host looks through a tensor sooner than its device would be asked."""
    return not x.device.has_kernels or x.device.kind == "cpu"


def true_places(x: Any) -> Any:
    """The flat places (int64) of the elements that are not 0; waits for how many there are."""
    if is_on_host(x):
        return Tensor.from_host(np.flatnonzero(x.to_host()), x.device)
    if not x.size:
        return Tensor.zeros((0,), "int64", x.device)
    counts = ag.cumsum(ag.ne(ag.reshape(x, (x.size,)), 0), 0)
    return COMPACT(counts, int(counts[-1].item()))


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
