"""grid_sample and affine_grid: pictures and volumes looked up at places between their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from netcl_plugin_tensor.selecting import GATHER

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_conv.windows import floating, numbers

_MODES: Final = ("bilinear", "nearest", "bicubic")
_PADDINGS: Final = ("zeros", "border", "reflection")
#: The coefficient of the cubic convolution (Keys 1981).
_CUBIC: Final = -0.75


def affine_grid(theta: Any, size: Sequence[int], align_corners: bool | None = None) -> Any:
    """The places that affine maps give to the elements of a result, for `grid_sample`.

    >>> ag.affine_grid(nc.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2)).tolist()
    [[[[-0.5, 0.0], [0.5, 0.0]]]]

    Args:
        theta: The maps, floating: (N, 2, 3), or (N, 3, 4) of volumes.
        size: Of the result: (N, C, H, W), or (N, C, D, H, W).
        align_corners: Whether -1 and 1 are the centres of the outermost elements, rather than
            their outer borders.

    Returns (N, H, W, 2) or (N, D, H, W, 3): x, y and z of each element.
    (Jaderberg, Simonyan, Zisserman, Kavukcuoglu 2015, arXiv:1506.02025)

    Raises:
        ShapeError: Unless given (N, C, H, W) or (N, C, D, H, W).
    """
    x = ag.as_operand(theta)
    floating("affine_grid", x)
    count = len(size) - 2
    if count not in (2, 3):
        raise ShapeError(
            message("affine_grid", f"size={size!r}", "(N, C, H, W) or (N, C, D, H, W)")
        )
    counts = numbers("affine_grid", "size", tuple(size), count + 2, 1)
    if x.shape != (counts[0], count, count + 1):
        expected = f"({counts[0]}, {count}, {count + 1})"
        raise ShapeError(message("affine_grid", f"theta of shape {x.shape}", expected))
    real = DTYPES[x.dtype].wide
    lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in counts[2:]]
    if not align_corners:
        lines = [line * (n - 1) / n for line, n in zip(lines, counts[2:], strict=True)]
    places = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(counts[2:])], -1)
    base = Tensor.from_host(places.reshape(-1, count + 1).astype(real), x.device).astype(x.dtype)
    return ag.reshape(ag.matmul(base, ag.transpose(x, 1, 2)), (counts[0], *counts[2:], count))


def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """The values of input between its elements, at the places that a grid names.

    >>> x = nc.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    >>> ag.grid_sample(x, nc.tensor([[[[0.0, 0.0], [-0.5, -0.5]]]])).tolist()
    [[[[4.0, 1.0]]]]

    Args:
        input: Floating: (N, C, H, W), or (N, C, D, H, W).
        grid: (N, out H, out W, 2), or (N, out D, out H, out W, 3): x, y and z of each place, where
            -1 is the left, upper and front end and 1 the other.
        mode: "bilinear" (of volumes along three axes), "nearest", or "bicubic", of pictures alone.
        padding_mode: What is beyond: "zeros", the elements of the "border", or a "reflection".
        align_corners: Whether -1 and 1 are the centres of the outermost elements, rather than
            their outer borders.

    Returns (N, C, out H, out W) or (N, C, out D, out H, out W). A place that is no number gives
    what a place far outside gives.
    """
    x = ag.as_operand(input)
    places = ag.as_operand(grid, x.device)
    _check(x, places, mode, padding_mode)
    sizes = tuple(x.shape[2:])
    at = []
    for i, n in enumerate(reversed(sizes)):  # x comes first
        along = ag.reshape(ag.select(places, -1, i), (x.shape[0], 1, -1))
        scaled = ag.mul(ag.add(along, 1.0), (n - 1) / 2 if align_corners else n / 2)
        at.append(scaled if align_corners else ag.sub(scaled, 0.5))
    bounds = _Bounds(padding_mode, bool(align_corners))
    corners = _CORNERS[mode]([*reversed(at)], sizes, bounds)
    flat = ag.reshape(x, (*x.shape[:2], math.prod(sizes)))
    shape = (*x.shape[:2], at[0].shape[-1])
    total: Any = None
    for index, weight in corners:
        values = GATHER(flat, 2, ag.expand(index, shape))
        part = values if weight is None else ag.mul(values, weight)
        total = part if total is None else ag.add(total, part)
    return ag.reshape(total, (*x.shape[:2], *places.shape[1:-1]))


def _check(x: Any, grid: Any, mode: str, padding_mode: str) -> None:
    floating("grid_sample", x)
    if mode not in _MODES:
        raise AttributeValueError(message("grid_sample", f"mode={mode!r}", ", ".join(_MODES)))
    if padding_mode not in _PADDINGS:
        given = f"padding_mode={padding_mode!r}"
        raise AttributeValueError(message("grid_sample", given, ", ".join(_PADDINGS)))
    if grid.dtype != x.dtype:
        given = f"input of {x.dtype} and grid of {grid.dtype}"
        raise DtypeError(message("grid_sample", given, "one dtype", "Convert with astype"))
    count = x.ndim - 2
    fits = count in (2, 3) and grid.ndim == x.ndim and grid.shape[-1] == count
    if not fits or grid.shape[0] != x.shape[0] or 0 in x.shape[1:]:
        given = f"input of shape {x.shape} and grid of {grid.shape}"
        expected = "(N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, w, 3)"
        raise ShapeError(message("grid_sample", given, expected))
    if mode == "bicubic" and count == 3:
        raise AttributeValueError(message("grid_sample", "mode='bicubic' of a volume", "a picture"))


class _Bounds:
    """What becomes of places beyond the borders."""

    def __init__(self, padding: str, aligned: bool) -> None:
        self.padding, self.aligned = padding, aligned

    def moved(self, at: Any, size: int) -> Any:
        """Places along an axis, moved inside unless what is beyond is zeros."""
        if self.padding == "zeros":
            return at
        if self.padding == "reflection":
            at = self._reflected(at, size)
        return ag.clamp(at, 0.0, float(size - 1))

    def _reflected(self, at: Any, size: int) -> Any:
        low, span = (0.0, size - 1.0) if self.aligned else (-0.5, float(size))
        if span == 0:
            return ag.mul(at, 0.0)
        far = ag.abs(ag.sub(at, low))
        extra = ag.fmod(far, span)
        with ag.no_grad():
            even = ag.eq(ag.fmod(ag.floor(ag.div(far, span)), 2.0), 0)
        return ag.where(even, ag.add(extra, low), ag.sub(span + low, extra))

    def element(self, ats: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, Any]:
        """int64 indices into planes of whole places, and which are inside (1 or 0)."""
        index: Any = None
        inside: Any = None
        with ag.no_grad():
            for at, size in zip(ats, sizes, strict=True):
                here = ag.logical_and(ag.ge(at, 0), ag.le(at, size - 1))
                along = ag.where(here, at, 0.0).astype("int64")
                index = along if index is None else ag.add(ag.mul(index, size), along)
                inside = here if inside is None else ag.logical_and(inside, here)
            return ag.where(inside, index, 0), inside.astype(ats[0].dtype)


_Corners = list[tuple[Any, Any]]


def _nearest(ats: Sequence[Any], sizes: Sequence[int], bounds: _Bounds) -> _Corners:
    with ag.no_grad():
        moved = [ag.round(bounds.moved(at, n)) for at, n in zip(ats, sizes, strict=True)]
    return [bounds.element(moved, sizes)]


def _linear(ats: Sequence[Any], sizes: Sequence[int], bounds: _Bounds) -> _Corners:
    moved = [bounds.moved(at, n) for at, n in zip(ats, sizes, strict=True)]
    lows = [ag.floor(at).detach() for at in moved]
    weighted = []
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        places = [ag.add(low, float(up)) for low, up in zip(lows, corner, strict=True)]
        index, weight = bounds.element(places, sizes)
        for at, low, up in zip(moved, lows, corner, strict=True):
            share = ag.sub(at, low) if up else ag.sub(ag.add(low, 1.0), at)
            weight = ag.mul(weight, share)
        weighted.append((index, weight))
    return weighted


def _cubic(ats: Sequence[Any], sizes: Sequence[int], bounds: _Bounds) -> _Corners:
    lows = [ag.floor(at).detach() for at in ats]
    shares = [_shares(ag.sub(at, low)) for at, low in zip(ats, lows, strict=True)]
    weighted = []
    for corner in itertools.product(range(4), repeat=len(sizes)):
        with ag.no_grad():
            places = [
                ag.round(bounds.moved(ag.add(low, k - 1.0), n))
                for low, k, n in zip(lows, corner, sizes, strict=True)
            ]
        index, weight = bounds.element(places, sizes)
        for share, k in zip(shares, corner, strict=True):
            weight = ag.mul(weight, share[k])
        weighted.append((index, weight))
    return weighted


def _shares(t: Any) -> list[Any]:
    """The weights of four elements, t behind the second."""
    a = _CUBIC

    def near(d: Any) -> Any:
        inner = ag.sub(ag.mul(d, a + 2), a + 3)
        return ag.add(ag.mul(ag.mul(inner, d), d), 1.0)

    def far(d: Any) -> Any:
        inner = ag.add(ag.mul(ag.sub(ag.mul(d, a), 5 * a), d), 8 * a)
        return ag.sub(ag.mul(inner, d), 4 * a)

    back = ag.sub(1.0, t)
    return [far(ag.add(t, 1.0)), near(t), near(back), far(ag.add(back, 1.0))]


_CORNERS: Final = {"bilinear": _linear, "nearest": _nearest, "bicubic": _cubic}
OPERATORS = (composite(affine_grid, ("theta",)), composite(grid_sample, ("input", "grid")))
