"""Windows of pooling: their sizes and places along each axis, as PyTorch's arguments have them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message

#: Kernels have so many axes.
_AXES: Final = 3
#: Places in a plane are int32: a plane has fewer elements.
MOST: Final = 2**31


@final
@dataclass(frozen=True)
class WindowAxis:
    """The windows along one axis: `count` of them over `size` elements.

    Window o has `kernel` elements `dilation` apart from o * stride - padding on; with `adaptive`
    it reaches from floor(o * size / count) to ceil((o + 1) * size / count), and `kernel` is the
    longest.
    """

    size: int
    count: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    adaptive: bool = False

    def places(self) -> tuple[Any, Any]:
        """Where each window starts, and where it ends (one behind its last element)."""
        o = np.arange(self.count, dtype=np.int64)
        if self.adaptive:
            return o * self.size // self.count, -(-(o + 1) * self.size // self.count)
        start = o * self.stride - self.padding
        return start, start + (self.kernel - 1) * self.dilation + 1

    def filled(self) -> Any:
        """Which windows have an element: with dilation one may have both its taps outside."""
        start, end = self.places()
        skipped = 0 if self.adaptive else np.maximum(0, -(start // self.dilation))
        first = start + skipped * self.dilation
        return first < np.minimum(end, self.size)


#: An axis of one element, for tensors with fewer than three.
WHOLE: Final = WindowAxis(1, 1, 1)
Axes = tuple[WindowAxis, WindowAxis, WindowAxis]


def padded(axes: Sequence[WindowAxis]) -> Axes:
    """Three axes, the first ones of one element."""
    first, second, third = [WHOLE] * (_AXES - len(axes)) + list(axes)
    return first, second, third


def whole(given: Any, least: int) -> int | None:
    """An int of at least `least` and of a size that kernels can count; None if it is none."""
    try:
        number = operator.index(given)
    except TypeError:
        return None
    return number if least <= number < MOST else None


def numbers(who: str, name: str, given: Any, count: int, least: int) -> tuple[int, ...]:
    """An int per axis from one int or several; raises AttributeValueError if it is none."""
    several = list(given) if isinstance(given, (tuple, list)) else [given]
    values = [whole(item, least) for item in several]
    kept = [number for number in values * (count if len(values) == 1 else 1) if number is not None]
    if len(kept) != count or None in values:
        expected = f"an int of at least {least}, or {count} of them"
        raise AttributeValueError(message(who, f"{name}={given!r}", expected))
    return tuple(kept)


def countable(who: str, counts: Sequence[int]) -> None:
    """Raise ShapeError if a plane of so many elements per axis is more than kernels can count."""
    if math.prod(counts) >= MOST:
        given = f"a result of {' x '.join(map(str, counts))} elements"
        raise ShapeError(message(who, given, f"fewer than {MOST} in a plane"))


def floating(who: str, x: Any) -> None:
    """Raise DtypeError unless x (a tensor, or its Spec) is floating."""
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message(who, f"a {x.dtype} tensor", "a floating dtype"))


def spatial(who: str, x: Any, count: int) -> tuple[int, ...]:
    """The last `count` sizes of x; raises unless it is floating and (N, C, ...) or (C, ...)."""
    floating(who, x)
    shape = tuple(x.shape)
    if len(shape) not in (count + 1, count + 2):
        names = ", ".join(["L", "H, W", "D, H, W"][count - 1 : count])
        expected = f"x of shape (N, C, {names}) or (C, {names})"
        raise ShapeError(message(who, f"x of shape {shape}", expected))
    return shape[len(shape) - count :]


def strided(
    who: str, sizes: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool,
) -> list[WindowAxis]:  # fmt: skip
    """The axes of pooling with a kernel; raises for windows that do not fit."""
    count = len(sizes)
    kernels = numbers(who, "kernel_size", kernel, count, 1)
    same = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    strides = kernels if same else numbers(who, "stride", stride, count, 1)
    paddings = numbers(who, "padding", padding, count, 0)
    dilations = numbers(who, "dilation", dilation, count, 1)
    axes = []
    for size, k, s, p, d in zip(sizes, kernels, strides, paddings, dilations, strict=True):
        if 2 * p > (k - 1) * d + 1:
            expected = "at most half of the kernel, dilation included"
            raise AttributeValueError(message(who, f"padding={p} with kernel_size={k}", expected))
        axes.append(WindowAxis(size, _windows(who, size, k, s, p, d, ceil_mode), k, s, p, d))
    return axes


def _windows(
    who: str, size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """How many windows there are; with `ceil_mode` one may end outside, but none starts there."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    if count < 1:
        given = f"windows of {dilation * (kernel - 1) + 1} elements over {size}"
        raise ShapeError(message(who, f"{given} with padding {padding}", "at least one window"))
    return count


def adaptive(who: str, sizes: Sequence[int], output_size: Any) -> list[WindowAxis]:
    """The axes of adaptive pooling; None in `output_size` keeps an axis' size."""
    given = output_size
    if not isinstance(given, (tuple, list)):
        given = [given] * len(sizes)
    if len(given) != len(sizes):
        raise AttributeValueError(
            message(who, f"output_size={output_size!r}", f"an int, or {len(sizes)} of them")
        )
    wanted = [size if number is None else number for size, number in zip(sizes, given, strict=True)]
    counts = numbers(who, "output_size", wanted, len(sizes), 1)
    countable(who, counts)
    axes = []
    for size, count in zip(sizes, counts, strict=True):
        if not size:
            raise ShapeError(message(who, "an axis without elements", "at least one"))
        if size % count:
            start, end = WindowAxis(size, count, 1, adaptive=True).places()
            axes.append(WindowAxis(size, count, int((end - start).max()), adaptive=True))
        else:
            axes.append(WindowAxis(size, count, size // count, size // count))
    return axes
