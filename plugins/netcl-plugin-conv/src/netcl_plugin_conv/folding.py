"""im2col and fold: the elements of windows as columns, and columns added up in their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import ShapeError, message
from netcl_plugin_conv.windows import countable, numbers


class _Windows:
    """Windows over a padded plane."""

    def __init__(
        self, who: str, sizes: Sequence[int], kernel: Any, dilation: Any, padding: Any, stride: Any
    ) -> None:
        count = len(sizes)
        self.kernel = numbers(who, "kernel_size", kernel, count, 1)
        dilations = numbers(who, "dilation", dilation, count, 1)
        self.padding = numbers(who, "padding", padding, count, 0)
        strides = numbers(who, "stride", stride, count, 1)
        self.plane = tuple(n + 2 * p for n, p in zip(sizes, self.padding, strict=True))
        spans = [d * (k - 1) + 1 for k, d in zip(self.kernel, dilations, strict=True)]
        self.counts = tuple(
            (n - span) // s + 1 for n, span, s in zip(self.plane, spans, strides, strict=True)
        )
        if min(self.counts) < 1:
            given = f"windows of {spans} over {list(sizes)} with padding {list(self.padding)}"
            raise ShapeError(message(who, given, "at least one window"))
        countable(who, self.plane)
        countable(who, (*self.kernel, *self.counts))
        at = [
            np.arange(k)[:, None] * d + np.arange(n)[None] * s
            for k, d, n, s in zip(self.kernel, dilations, self.counts, strides, strict=True)
        ]
        #: (taps, windows): where in the plane each element lies.
        self.places = (
            at[0][:, None, :, None] * self.plane[1] + at[1][None, :, None, :]
        ).reshape(math.prod(self.kernel), math.prod(self.counts))  # fmt: skip

    def index(self, device: Any) -> Any:
        """The places, one after the other."""
        return Tensor.from_host(self.places.reshape(-1).astype(np.int64), device)


def im2col(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The elements of each window of input (N, C, H, W) or (C, H, W) as a column: `F.unfold`.

    >>> x = nc.tensor(np.arange(9.0, dtype=np.float32).reshape(1, 3, 3))
    >>> ag.im2col(x, 2).tolist()
    [[0.0, 1.0, 3.0, 4.0], [1.0, 2.0, 4.0, 5.0], [3.0, 4.0, 6.0, 7.0], [4.0, 5.0, 7.0, 8.0]]

    Args:
        input: A tensor of any dtype.
        kernel_size: The sizes of a window, an int or two.
        dilation: How far its elements stand apart.
        padding: Zeros at each border.
        stride: How far windows stand apart.

    Returns (N, C * elements of a window, windows). Raises ShapeError where no window fits.
    """
    x = ag.as_operand(input)
    if x.ndim not in (3, 4) or 0 in x.shape[x.ndim - 3 :]:
        given, expected = f"input of shape {x.shape}", "(N, C, H, W) or (C, H, W), of some elements"
        raise ShapeError(message("unfold", given, expected))
    windows = _Windows("unfold", x.shape[-2:], kernel_size, dilation, padding, stride)
    high, wide = windows.padding
    padded = ag.pad(x, (wide, wide, high, high)) if high or wide else x
    lead, taps = x.shape[:-2], len(windows.places)
    planes = ag.reshape(padded, (*lead, math.prod(windows.plane)))
    columns = ag.index_select(planes, len(lead), windows.index(x.device))
    return ag.reshape(columns, (*lead[:-1], lead[-1] * taps, math.prod(windows.counts)))


def fold(
    input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
    stride: Any = 1,
) -> Any:  # fmt: skip
    """Columns added up where `F.unfold` of a plane of `output_size` took them.

    >>> ag.fold(nc.ones(1, 4, 4), 3, 2).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]

    Args:
        input: (N, C * elements of a window, windows), or without N.
        output_size: The height and width of the result.
        kernel_size, dilation, padding, stride: As of `F.unfold`.

    Returns (N, C, height, width). Raises ShapeError where the columns are not as many.
    """
    x = ag.as_operand(input)
    sizes = numbers("fold", "output_size", output_size, 2, 1)
    shapes = _Windows("fold", sizes, kernel_size, dilation, padding, stride)
    taps, windows = shapes.places.shape
    if x.ndim not in (2, 3) or x.shape[-2] % taps or x.shape[-1] != windows or not x.shape[-2]:
        expected = f"(N, C * {taps}, {windows}) or (C * {taps}, {windows})"
        raise ShapeError(message("fold", f"input of shape {x.shape}", expected))
    lead = (*x.shape[:-2], x.shape[-2] // taps)
    columns = ag.reshape(x, (*lead, taps * windows))
    empty = Tensor.zeros((*lead, math.prod(shapes.plane)), x.dtype, x.device)
    planes = ag.index_add(empty, len(lead), shapes.index(x.device), columns)
    high, wide = shapes.padding
    whole = ag.reshape(planes, (*lead, *shapes.plane))
    inside = (slice(high, high + sizes[0]), slice(wide, wide + sizes[1]))
    return ag.getitem(whole, (..., *inside)) if high or wide else whole


OPERATORS = (composite(im2col), composite(fold))
