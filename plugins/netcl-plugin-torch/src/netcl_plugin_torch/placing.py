"""Gradients of slices: zeros, and the slice's gradient in its place, in one launch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.inspect.data import Memo
from netcl_plugin_torch.dispatch import direct
from netcl_plugin_torch.tensor import empty_raw, filled_raw, wrap

#: What an element is copied as, by its bytes.
_STORAGE: Final = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_GPU_LOCAL: Final = 128
_CPU_CHUNK: Final = 4096
_bounds: Final[Memo[Any, nc.Bound]] = Memo(256)


@direct("select_backward")
def select_backward(grad: Any, sizes: Sequence[int], dim: int, index: int) -> Any:
    i = dim % len(sizes)
    return _placed(grad, tuple(sizes), i, index % sizes[i], 1, 1)


@direct("slice_backward")
def slice_backward(
    grad: Any, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Any:
    i = dim % len(sizes)
    return _placed(grad, tuple(sizes), i, slice(start, end).indices(sizes[i])[0], step,
                   grad.shape[i])  # fmt: skip


def _placed(grad: Any, sizes: tuple[int, ...], dim: int, start: int, step: int, count: int) -> Any:
    """Zeros of `sizes` with a gradient at each `step`-th of `count` places of a dimension."""
    given = grad.raw
    if not given.size or not given.device.has_kernels:
        out = filled_raw(sizes, given.dtype, 0)
        if given.size:
            shape = (*sizes[:dim], count, *sizes[dim + 1 :])
            places = (slice(None),) * dim + (slice(start, start + step * count, step),)
            with ag.no_grad():
                out[places].value.overwrite(ag.reshape(given, shape).value)
        return wrap(out)
    out = empty_raw(sizes, given.dtype)
    numbers = (math.prod(sizes[dim + 1 :]), sizes[dim], start, step, count, math.prod(sizes))
    key = numbers, given.dtype, given.device
    bound = _bounds.get(key) or _bounds.put(key, _bound(given, numbers))
    bound([given.buffer], [out.buffer])
    return wrap(out)


def _bound(given: Any, numbers: Sequence[int]) -> nc.Bound:
    gpu, index = given.device.kind == "gpu", "uint" if numbers[-1] < 1 << 31 else "ulong"
    chunk, local = (1, _GPU_LOCAL) if gpu else (_CPU_CHUNK, 1)
    args = (("in", 0), ("out", 0), *[(index, number) for number in numbers])
    storage = _STORAGE[nc.DTYPES[given.dtype].itemsize]
    context = {"storage": storage, "index": index, "chunk": chunk}
    groups = -(-numbers[-1] // (chunk * local))
    kernel = nc.Kernel("torch/placed.cl.j2", "placed", args, (groups * local,), (local,), context)
    return nc.Bound(given.device, nc.Kernels((kernel,)), (), ())
