"""interpolate: x resampled to another size, with PyTorch's modes and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_conv.pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from netcl_plugin_conv.resampling import RESAMPLE, resampled
from netcl_plugin_conv.tables import Resampling, ratio
from netcl_plugin_conv.windows import countable, numbers

#: By mode: along an axis, and with how many axes.
_MODES: Final[dict[str, tuple[str, tuple[int, ...]]]] = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
    "area": ("area", (1, 2, 3)),
}
_AREAS: Final = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
_WHO: Final = "interpolate"


def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """x (N, C, ...) resampled along its last axes, by PyTorch's formulas.

    >>> ag.interpolate(nc.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear").numpy()
    array([[[1. , 1.5, 2.5, 3. ]]], dtype=float32)

    Args:
        x: Of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W), floating.
        size: The new sizes, an int or one per axis.
        scale_factor: How many times as large, in place of `size`; results are rounded down.
        mode: "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic", or "area",
            which averages.
        align_corners: Of the linear and cubic modes, whether the centres of the outermost elements
            stay where they are, rather than their outer borders.
        recompute_scale_factor: Whether distances follow from the sizes, not from `scale_factor`.
        antialias: Not available.

    Raises:
        ArgumentError: not exactly one of `size` and `scale_factor` is there.
        AttributeValueError: the mode is unknown, or does not take `align_corners`.
        ShapeError: the mode is for another number of axes, or a size is 0.
    """
    x = x if isinstance(x, Tensor) else ag.as_operand(x)
    way = _checked(x, mode, align_corners, antialias)
    old = tuple(x.shape[2:])
    new, factors = _sizes(old, size, scale_factor)
    if recompute_scale_factor:
        if factors is None:
            given = "recompute_scale_factor without scale_factor"
            raise ArgumentError(message(_WHO, given, "scale_factor"))
        factors = None
    if way == "area":
        return _AREAS[len(old) - 1](x, new)
    each = zip(old, new, factors or (None,) * len(old), strict=True)
    ways = [_way(mode, n, m, factor, bool(align_corners)) for n, m, factor in each]
    return resampled(_WHO, x, ways)


def _way(mode: str, size: int, count: int, factor: float | None, aligned: bool) -> Resampling:
    distance = ratio(size, count, factor, aligned)
    return Resampling(size, count, _MODES[mode][0], scale=distance, aligned=aligned)


def _checked(x: Any, mode: str, align_corners: bool | None, antialias: bool) -> str:
    """The mode along an axis."""
    if mode not in _MODES:
        raise AttributeValueError(message(_WHO, f"mode={mode!r}", f"one of {', '.join(_MODES)}"))
    way, axes = _MODES[mode]
    if x.ndim - 2 not in axes:
        expected = " or ".join(f"{n + 2} dimensions" for n in axes)
        raise ShapeError(message(_WHO, f"x of shape {tuple(x.shape)} with mode={mode!r}", expected))
    if align_corners is not None and way not in ("linear", "cubic"):
        given = f"align_corners={align_corners} with mode={mode!r}"
        raise AttributeValueError(message(_WHO, given, "a linear mode, or bicubic"))
    if antialias:
        raise AttributeValueError(message(_WHO, "antialias=True", "False: it is not available"))
    return way


def _sizes(
    old: Sequence[int], size: Any, scale_factor: Any
) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """The new sizes, and the factors if there are some."""
    if (size is None) == (scale_factor is None):
        given = f"size={size!r} and scale_factor={scale_factor!r}"
        raise ArgumentError(message(_WHO, given, "exactly one of the two"))
    factors = None if scale_factor is None else _factors(scale_factor, len(old))
    if factors is not None:
        size = tuple(math.floor(n * factor) for n, factor in zip(old, factors, strict=True))
    new = numbers(_WHO, "size", size, len(old), 1)
    countable(_WHO, new)
    return new, factors


def _factors(given: Any, count: int) -> tuple[float, ...]:
    """A positive number per axis."""
    several = list(given) if isinstance(given, (tuple, list)) else [given] * count
    try:
        factors = tuple(float(factor) for factor in several)
    except (TypeError, ValueError, OverflowError):
        factors = ()
    if len(factors) != count or not all(math.isfinite(factor) and factor > 0 for factor in factors):
        expected = f"a positive number, or {count} of them"
        raise AttributeValueError(message(_WHO, f"scale_factor={given!r}", expected))
    return factors


OPERATORS = (composite(interpolate, ("x",), parts=(RESAMPLE,)),)
