"""Gradients of a convolution whose patches do not overlap: two products and a copy each.

Every position has one tap then. The transposed convolution would launch kernels for each remainder
by the strides, 256 of them for patches of 16 x 16.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor

#: So many launches, one for each remainder by the strides, take longer than two copies.
_MANY_WALKS: Final = 16


def are_patches(kernel: Sequence[int], attrs: Mapping[str, Any]) -> bool:
    """Whether patches lie side by side, and are large enough for products."""
    if tuple(kernel) != attrs["stride"] or math.prod(kernel) < _MANY_WALKS:
        return False
    plain = attrs["groups"] == 1 and not np.any(attrs["padding"])
    return plain and set(attrs["dilation"]) == {1}


def _rows(dims: int, grad: Tensor) -> Any:
    """The gradient as a matrix, with a row for each patch."""
    lead = range(grad.ndim - dims - 1)
    order = (*lead, *range(grad.ndim - dims, grad.ndim), len(lead))
    return ag.reshape(ag.permute(grad, order), (-1, grad.shape[-dims - 1]))


def _order(dims: int, lead: int) -> list[int]:
    """From (images, channels, patches and elements of each axis): patches before channels."""
    patches = range(lead + 1, lead + 1 + 2 * dims, 2)
    return [*range(lead), *patches, lead, *(i + 1 for i in patches)]


def weight_of_patches(dims: int, x: Any, grad: Tensor, shape: Sequence[int]) -> Any:
    """The gradient of the weight, of this shape."""
    counts, kernel, lead = grad.shape[-dims:], shape[2:], x.ndim - dims - 1
    used = x[(..., *(slice(n * k) for n, k in zip(counts, kernel, strict=True)))]
    parts = [size for pair in zip(counts, kernel, strict=True) for size in pair]
    apart = ag.reshape(used, (*x.shape[: lead + 1], *parts))
    patches = ag.reshape(ag.permute(apart, _order(dims, lead)), (-1, math.prod(shape[1:])))
    return ag.reshape(ag.matmul(_rows(dims, grad), patches, trans_a=True), shape)


def input_of_patches(dims: int, grad: Tensor, weight: Any, sizes: Sequence[int]) -> Any:
    """The gradient of the input, whose positions have these sizes."""
    counts, kernel, lead = grad.shape[-dims:], weight.shape[2:], grad.ndim - dims - 1
    images, channels = grad.shape[:lead], weight.shape[1]
    flat = ag.matmul(_rows(dims, grad), ag.reshape(weight, (weight.shape[0], -1)))
    apart = ag.reshape(flat, (*images, *counts, channels, *kernel))
    back = ag.permute(apart, np.argsort(_order(dims, lead)).tolist())
    covered = [n * k for n, k in zip(counts, kernel, strict=True)]
    whole = ag.reshape(back, (*images, channels, *covered))
    rest = [size - reach for size, reach in zip(sizes, covered, strict=True)]
    return (
        ag.pad(whole, [n for extent in reversed(rest) for n in (0, extent)]) if any(rest) else whole
    )
