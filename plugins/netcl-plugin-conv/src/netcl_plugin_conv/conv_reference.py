"""Convolutions in NumPy: sums over the kernel's taps, each one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from netcl_core import widened
from netcl_plugin_conv.conv_arguments import Padding


def _taps(
    kernel: Sequence[int], counts: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Each place in the kernel, and what it reads (or adds to) of the padded array."""
    for tap in np.ndindex(*kernel):
        starts = [at * step for at, step in zip(tap, dilation, strict=True)]
        yield (
            tap,
            tuple(
                slice(start, start + (count - 1) * step + 1, step)
                for start, count, step in zip(starts, counts, stride, strict=True)
            ),
        )


def _split(array: Any, dims: int, groups: int) -> Any:
    """(N, groups, channels of a group, *sizes)."""
    lead = array.shape[0] if array.ndim == dims + 2 else 1
    return array.reshape(lead, groups, array.shape[-dims - 1] // groups, *array.shape[-dims:])


def _padded(array: Any, padding: Padding) -> Any:
    """Zeros around the last dimensions; a negative number crops."""
    grown = np.pad(array, [(0, 0)] * 3 + [(max(a, 0), max(b, 0)) for a, b in padding])
    crops = [slice(max(-a, 0), size - max(-b, 0))
             for (a, b), size in zip(padding, grown.shape[3:], strict=True)]  # fmt: skip
    return grown[(slice(None),) * 3 + tuple(crops)]


def forward(x: Any, weight: Any, shape: Sequence[int], attrs: Any) -> Any:
    """The convolution of shape `shape`, without bias."""
    stride, dilation, groups = attrs["stride"], attrs["dilation"], attrs["groups"]
    dims, counts = len(stride), shape[-len(stride) :]
    wide, kernels = widened(x), widened(weight)
    padded = _padded(_split(wide, dims, groups), attrs["padding"])
    kernels = kernels.reshape(groups, len(kernels) // groups, *kernels.shape[1:])
    out = np.zeros((len(padded), groups, kernels.shape[1], int(np.prod(counts))), wide.dtype)
    for tap, places in _taps(weight.shape[2:], counts, stride, dilation):
        read = padded[(slice(None),) * 3 + places].reshape(*padded.shape[:3], out.shape[-1])
        out += kernels[(slice(None),) * 3 + tap] @ read
    return out.reshape(shape)


def transposed(x: Any, weight: Any, shape: Sequence[int], attrs: Any) -> Any:
    """The transposed convolution of shape `shape`, without bias."""
    stride, dilation, groups = attrs["stride"], attrs["dilation"], attrs["groups"]
    dims, counts = len(stride), x.shape[-len(stride) :]
    wide, kernels = widened(x), widened(weight)
    split = _split(wide, dims, groups)
    kernels = kernels.reshape(groups, len(kernels) // groups, *kernels.shape[1:])
    flat = split.reshape(*split.shape[:3], int(np.prod(counts)))
    padding = attrs["padding"]
    sizes = [n + before + after for n, (before, after) in zip(shape[-dims:], padding, strict=True)]
    sizes = [max(n, (count - 1) * step + (k - 1) * far + 1) for n, count, step, k, far in zip(
        sizes, counts, stride, weight.shape[2:], dilation, strict=True)]  # fmt: skip
    whole = np.zeros((len(split), groups, kernels.shape[2], *sizes), wide.dtype)
    for tap, places in _taps(weight.shape[2:], counts, stride, dilation):
        part = np.swapaxes(kernels[(slice(None),) * 3 + tap], -1, -2) @ flat
        whole[(slice(None),) * 3 + places] += part.reshape(*part.shape[:3], *counts)
    cut = [(-before, before + n - size)
           for (before, _), n, size in zip(padding, shape[-dims:], sizes, strict=True)]  # fmt: skip
    return _padded(whole, tuple(cut)).reshape(shape)


def weights(x: Any, grad: Any, shape: Sequence[int], attrs: Any) -> Any:
    """The gradient of a convolution's weight of shape `shape`."""
    stride, dilation, groups = attrs["stride"], attrs["dilation"], attrs["groups"]
    dims, counts = len(stride), grad.shape[-len(stride) :]
    padded = _padded(_split(widened(x), dims, groups), attrs["padding"])
    above = _split(widened(grad), dims, groups)
    above = above.reshape(*above.shape[:3], int(np.prod(counts)))
    out = np.zeros((groups, shape[0] // groups, *shape[1:]), above.dtype)
    for tap, places in _taps(shape[2:], counts, stride, dilation):
        read = padded[(slice(None),) * 3 + places].reshape(*padded.shape[:3], above.shape[-1])
        out[(slice(None),) * 3 + tap] = (above @ np.swapaxes(read, -1, -2)).sum(0)
    return out.reshape(shape)
