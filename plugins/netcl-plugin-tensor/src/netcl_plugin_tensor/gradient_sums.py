"""Sums of a gradient over the dimensions along which an input was broadcast, for the engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from netcl_core import DTYPES, Bound, Device, Spec, Tensor
from netcl_core.inspect.data import Shape
from netcl_core.inspect.streams import stream_of
from netcl_plugin_tensor.reducing_job import SUM
from netcl_plugin_tensor.reducing_kernels import reduction_kernels
from netcl_plugin_tensor.tree_sum import tree_sum


def sums(x: Tensor, axes: tuple[int, ...]) -> Any:
    """A buffer with the sums of a tensor that has elements, over axes that are not negative."""
    device, kept = x.device, _kept(x.shape, axes)
    stream = stream_of(device)
    buffer = stream.allocate(math.prod(kept), DTYPES[x.dtype])
    if device.has_kernels:
        _kernel(device, x.shape, axes, x.dtype)((x.buffer,), (buffer,))
    else:
        forms = [(x.shape, DTYPES[x.dtype].numpy), (kept, DTYPES[x.dtype].numpy)]
        stream.host_call(partial(_on_host, axes), [x.buffer], [buffer], forms)
    return buffer


def _kept(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


@lru_cache(maxsize=4096)
def _kernel(device: Device, shape: Shape, axes: tuple[int, ...], dtype: str) -> Bound:
    source, result = Spec(shape, dtype), Spec(_kept(shape, axes), dtype)
    kernels = reduction_kernels(SUM, device, source, axes, dtype)
    return Bound(device, kernels, (source,), (result,))


def _on_host(axes: tuple[int, ...], arrays: Sequence[Any], target: Any) -> None:
    (wide,) = arrays
    target[...] = tree_sum(wide, axes, DTYPES[wide.dtype.name].wide)
