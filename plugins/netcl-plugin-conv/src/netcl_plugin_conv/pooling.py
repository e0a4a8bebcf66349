"""Pooling with PyTorch's names and arguments: largest elements, averages, powers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import Operator, composite
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_conv.max_windows import MAX_WINDOWS, flat_places
from netcl_plugin_conv.resampling import RESAMPLE, resampled
from netcl_plugin_conv.tables import Resampling
from netcl_plugin_conv.windows import WindowAxis, adaptive, spatial, strided, whole

#: What a divisor may be at most.
_LARGEST: Final = 2**31 - 1


def _tensor(x: Any) -> Any:
    return x if isinstance(x, Tensor) else ag.as_operand(x)


# -- the largest -----------------------------------------------------------------------------


def _largest(x: Any, axes: Sequence[WindowAxis], return_indices: bool) -> Any:
    largest = MAX_WINDOWS(x, tuple(axes))
    if not return_indices:
        return largest.values
    return largest.values, flat_places(largest.places, tuple(axes))


def _max_pool(who: str, count: int, x: Any, return_indices: bool, *windows: Any) -> Any:
    x = _tensor(x)
    axes = strided(who, spatial(who, x, count), *windows)
    return _largest(x, axes, return_indices)


def max_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of x (N, C, L) or (C, L); arguments as of `max_pool2d`.

    >>> ag.max_pool1d(nc.tensor([[1.0, 5.0, 2.0, 3.0]]), 2).numpy()
    array([[5., 3.]], dtype=float32)
    """
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool1d", 1, x, return_indices, *windows)


def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of x (N, C, H, W) or (C, H, W).

    >>> x = nc.tensor(np.arange(16.0, dtype=np.float32).reshape(1, 4, 4))
    >>> ag.max_pool2d(x, 2).numpy()
    array([[[ 5.,  7.],
            [13., 15.]]], dtype=float32)

    Of equal elements the first in the window counts, and NaN is larger than any number.

    Args:
        x: Floating.
        kernel_size: The sizes of a window, an int or one per axis.
        stride: How far windows stand apart; None: `kernel_size`.
        padding: How far windows reach beyond each border, at most half of the kernel; nothing
            there counts.
        dilation: How far the elements of a window stand apart.
        ceil_mode: Whether a window that starts inside and ends outside counts at the far border.
        return_indices: Whether to give the indices (int64, into the plane) of the elements, too.

    Returns:
        The elements, or a pair of these and the indices.

    Raises:
        ShapeError: x has another number of axes, or no window fits.
    """
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool2d", 2, x, return_indices, *windows)


def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of x (N, C, D, H, W) or (C, D, H, W); as `max_pool2d`.

    >>> ag.max_pool3d(nc.rand(1, 3, 4, 4, 4), 2).shape
    (1, 3, 2, 2, 2)

    Its arguments are as of `max_pool2d`.
    """
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool("max_pool3d", 3, x, return_indices, *windows)


def _adaptive_max(who: str, count: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    x = _tensor(x)
    return _largest(x, adaptive(who, spatial(who, x, count), output_size), return_indices)


def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of x (..., L) in `output_size` windows; as `adaptive_max_pool2d`.

    >>> ag.adaptive_max_pool1d(nc.rand(1, 3, 8), 2).shape
    (1, 3, 2)

    Args:
        return_indices: Whether the places of the maxima are a second result.
    """
    return _adaptive_max("adaptive_max_pool1d", 1, x, output_size, return_indices)


def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of x (..., H, W) in as many windows as `output_size` says.

    >>> ag.adaptive_max_pool2d(nc.tensor([[[1.0, 5.0, 2.0]]]), (1, 2)).numpy()
    array([[[5., 5.]]], dtype=float32)

    Window o of n reaches from floor(o * size / n) to ceil((o + 1) * size / n).

    Args:
        x: Of shape (N, C, H, W) or (C, H, W), floating.
        output_size: The number of windows, an int or one per axis; None: as many as elements.
        return_indices: Whether to give the indices (int64, into the plane) of the elements, too.
    """
    return _adaptive_max("adaptive_max_pool2d", 2, x, output_size, return_indices)


def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of x (..., D, H, W) in windows as of `adaptive_max_pool2d`.

    >>> ag.adaptive_max_pool3d(nc.rand(1, 3, 4, 4, 4), 2).shape
    (1, 3, 2, 2, 2)
    """
    return _adaptive_max("adaptive_max_pool3d", 3, x, output_size, return_indices)


# -- averages --------------------------------------------------------------------------------


def _averaged(
    who: str, x: Any, axes: Sequence[WindowAxis], inside: bool = False, divisor: int | None = None
) -> Any:
    shares = [0.0] * len(axes)
    if divisor is not None:
        shares = [1.0] * (len(axes) - 1) + [1.0 / divisor]
    ways = [
        Resampling(axis.size, axis.count, "average", axis, inside, share)
        for axis, share in zip(axes, shares, strict=True)
    ]
    return resampled(who, x, ways)


def _avg_pool(
    who: str, count: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    x = _tensor(x)
    axes = strided(who, spatial(who, x, count), kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override is not None and not whole(divisor_override, -_LARGEST):
        given = f"divisor_override={divisor_override!r}"
        raise AttributeValueError(message(who, given, "an int other than 0, or None"))
    return _averaged(who, x, axes, not count_include_pad, divisor_override)


def avg_pool1d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The average of each window of x (N, C, L) or (C, L); arguments as of `avg_pool2d`.

    >>> ag.avg_pool1d([[1.0, 3.0, 2.0, 4.0]], 2).tolist()
    [[2.0, 3.0]]
    """
    windows = (kernel_size, stride, padding, ceil_mode, count_include_pad)
    return _avg_pool("avg_pool1d", 1, x, *windows)


def avg_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The average of each window of x (N, C, H, W) or (C, H, W).

    >>> ag.avg_pool2d(nc.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 2).numpy()
    array([[[4.]]], dtype=float32)

    Args:
        x: Floating.
        kernel_size, stride, padding, ceil_mode: As of `max_pool2d`.
        count_include_pad: Whether elements of the padding count, as zeros.
        divisor_override: What sums are divided by, in place of the number of elements.
    """
    windows = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool("avg_pool2d", 2, x, *windows)


def avg_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The average of each window of x (N, C, D, H, W) or (C, D, H, W); as `avg_pool2d`.

    >>> ag.avg_pool3d(nc.rand(1, 2, 4, 4, 4), 2).shape
    (1, 2, 2, 2, 2)

    Its arguments are as of `avg_pool2d`.
    """
    windows = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return _avg_pool("avg_pool3d", 3, x, *windows)


def _adaptive_avg(who: str, count: int, x: Any, output_size: Any) -> Any:
    x = _tensor(x)
    axes = adaptive(who, spatial(who, x, count), output_size)
    if all(axis.count == 1 for axis in axes):
        return ag.mean(x, tuple(range(-count, 0)), True)
    return _averaged(who, x, axes)


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Any:
    """The averages of x (..., L) in `output_size` windows, as of `adaptive_max_pool2d`.

    >>> ag.adaptive_avg_pool1d(nc.rand(1, 3, 8), 2).shape
    (1, 3, 2)
    """
    return _adaptive_avg("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Any:
    """The averages of x (..., H, W) in windows as of `adaptive_max_pool2d`.

    >>> ag.adaptive_avg_pool2d(nc.tensor([[[1.0, 5.0, 2.0]]]), (1, 2)).numpy()
    array([[[3. , 3.5]]], dtype=float32)
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Any:
    """The averages of x (..., D, H, W) in windows as of `adaptive_max_pool2d`.

    >>> ag.adaptive_avg_pool3d(nc.rand(1, 3, 4, 4, 4), 2).shape
    (1, 3, 2, 2, 2)
    """
    return _adaptive_avg("adaptive_avg_pool3d", 3, x, output_size)


def global_avg_pool2d(x: Any) -> Any:
    """The average of each plane of x (N, C, H, W), of shape (N, C, 1, 1).

    For floating dtypes; others raise DtypeError.

    >>> ag.global_avg_pool2d(nc.rand(1, 3, 5, 5)).shape
    (1, 3, 1, 1)
    """
    return _adaptive_avg("global_avg_pool2d", 2, x, 1)


# -- powers ----------------------------------------------------------------------------------


def _lp_pool(
    who: str, count: int, x: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    x = _tensor(x)
    axes = strided(who, spatial(who, x, count), kernel_size, stride, 0, 1, ceil_mode)
    size = math.prod(axis.kernel for axis in axes)
    means = _averaged(who, ag.pow(x, norm_type), axes)
    positive = ag.mul(ag.sign(means), ag.relu(ag.abs(means)))
    return ag.pow(ag.mul(positive, float(size)), 1.0 / norm_type)


def lp_pool1d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The root of the sum of the powers of each window of x (..., L); as `lp_pool2d`.

    >>> ag.lp_pool1d(nc.rand(1, 3, 8), 2, 2).shape
    (1, 3, 4)

    Its arguments are as of `lp_pool2d`.
    """
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """`sum(x^p)^(1/p)` of each window of x (..., H, W), p being `norm_type`.

    >>> ag.lp_pool2d(nc.tensor([[[3.0, 4.0]]]), 2, (1, 2)).numpy()
    array([[[5.]]], dtype=float32)

    Args:
        kernel_size: The size of a window: a number, or one for each dimension.
        stride: How far a window goes each time, `kernel_size` by default.
        ceil_mode: Whether a window may begin inside and end outside.
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The root of the sum of the powers of each window of x (..., D, H, W); as `lp_pool2d`.

    >>> ag.lp_pool3d(nc.rand(1, 3, 4, 4, 4), 2, 2).shape
    (1, 3, 2, 2, 2)

    Its arguments are as of `lp_pool2d`.
    """
    return _lp_pool("lp_pool3d", 3, x, norm_type, kernel_size, stride, ceil_mode)


def _record(function: Any, *parts: Operator) -> Operator:
    return composite(function, ("x",), parts=parts)


OPERATORS = (
    *(_record(function, MAX_WINDOWS) for function in (
        max_pool1d, max_pool2d, max_pool3d,
        adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d)),
    *(_record(function, RESAMPLE) for function in (
        avg_pool1d, avg_pool2d, avg_pool3d, adaptive_avg_pool1d, adaptive_avg_pool2d,
        adaptive_avg_pool3d, global_avg_pool2d, lp_pool1d, lp_pool2d, lp_pool3d)),
)  # fmt: skip
