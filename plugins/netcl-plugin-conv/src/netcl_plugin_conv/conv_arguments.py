"""What convolutions are called with: arguments as PyTorch takes them, made uniform and checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core import DTYPES, Spec
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_conv.windows import MOST, countable

#: Zeros before and after each spatial dimension.
Padding: TypeAlias = tuple[tuple[int, int], ...]
_LAYOUTS: Final = ("L", "H, W", "D, H, W")


def per_dimension(who: str, name: str, value: Any, dims: int, least: int) -> tuple[int, ...]:
    """An int for all dimensions, or a sequence of one for each, as a tuple."""
    given = (value,) * dims if np.ndim(value) == 0 else tuple(value)
    whole = all(isinstance(item, (int, np.integer)) for item in given)
    if len(given) == 1:
        given = given * dims
    if not whole or len(given) != dims or min(given) < least or max(given) >= MOST:
        expected = f"a whole number of {least} to {MOST - 1}, or {dims} of them"
        raise AttributeValueError(message(who, f"{name}={value!r}", expected))
    return tuple(int(item) for item in given)


def paddings(
    who: str, value: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Padding:
    """Zeros before and after each dimension from an int, ints, pairs, 'same' or 'valid'."""
    dims = len(kernel)
    if value == "valid":
        return ((0, 0),) * dims
    if value == "same":
        if max(stride) > 1:
            given, remedy = f"padding='same' with stride={tuple(stride)}", "Give numbers"
            raise AttributeValueError(message(who, given, "a stride of 1", remedy))
        totals = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    if isinstance(value, str):
        expected = "numbers, 'same' or 'valid'"
        raise AttributeValueError(message(who, f"padding={value!r}", expected))
    if np.ndim(value) == 2:
        pairs = [per_dimension(who, "padding", pair, 2, -(1 << 62)) for pair in value]
        return tuple((before, after) for before, after in pairs)
    return tuple((number, number) for number in per_dimension(who, "padding", value, dims, 0))


def kernel_of(who: str, weight: Any, dims: int) -> tuple[int, ...]:
    """The spatial sizes of a weight; raises ShapeError if it has not the rank of one."""
    shape = np.shape(weight)
    if len(shape) != dims + 2 or 0 in shape[1:]:
        layout = f"(out, in / groups, {_kernel_layout(dims)}) without an empty dimension"
        raise ShapeError(message(who, f"weight of shape {tuple(shape)}", layout))
    return tuple(shape[2:])


def _kernel_layout(dims: int) -> str:
    return ", ".join(f"k{letter.strip()}" for letter in _LAYOUTS[dims - 1].split(","))


def check_operands(who: str, dims: int, x: Spec, others: Sequence[Spec | None]) -> None:
    """All of one floating dtype, and x of the rank that the op takes."""
    if x.ndim not in (dims + 1, dims + 2):
        layout = _LAYOUTS[dims - 1]
        remedy = "Add the channels with unsqueeze" if x.ndim == dims else ""
        raise ShapeError(
            message(who, f"x of shape {x.shape}", f"(N, C, {layout}) or (C, {layout})", remedy)
        )
    dtypes = {spec.dtype for spec in (x, *others) if spec is not None}
    if len(dtypes) > 1:
        given = " and ".join(sorted(dtypes))
        raise DtypeError(message(who, given, "one dtype", "Convert with astype"))
    if not DTYPES[x.dtype].floating:
        raise DtypeError(
            message(who, x.dtype, "a floating dtype", "Convert with astype('float32')")
        )


def check_channels(who: str, x: Spec, weight: Spec, channels: int, groups: int, axis: int) -> None:
    """Channels that fit the weight, and groups of equal size."""
    if groups < 1 or weight.shape[0] % groups:
        given = f"groups={groups} with {weight.shape[0]} channels in weight's dimension 0"
        raise AttributeValueError(message(who, given, "a divisor of them"))
    if channels != x.shape[-axis]:
        given = f"x of shape {x.shape} with weight of shape {weight.shape} and groups={groups}"
        raise ShapeError(message(who, given, f"{channels} channels in x, not {x.shape[-axis]}"))


def check_bias(who: str, bias: Spec | None, channels: int) -> None:
    """A bias has a number for each channel of the result."""
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(message(who, f"bias of shape {bias.shape}", f"({channels},)"))


def check_sizes(who: str, sizes: Sequence[int], x: Spec, what: str) -> None:
    """A result has no negative or empty spatial size, and not more positions than are counted."""
    if min(sizes) < 1:
        given = f"x of shape {x.shape} and {what}, which leave {tuple(sizes)} positions"
        raise ShapeError(message(who, given, "at least one", "Pad more, or take a smaller kernel"))
    countable(who, sizes)


def check_padded(who: str, sizes: Sequence[int], padding: Padding, what: str) -> None:
    """What kernels lay out with its zeros, which a large stride may skip, has room in memory."""
    padded = [size + before + after for size, (before, after) in zip(sizes, padding, strict=True)]
    if math.prod(padded) >= MOST:
        given = f"{what}, which span {' x '.join(map(str, padded))} elements with the padding"
        raise ShapeError(message(who, given, f"fewer than {MOST} in a plane"))
