"""Which elements make up each result of a linear resampling along one axis, with which weights.

All that averages or interpolates is such a table per axis: average pooling, adaptive or not, and
PyTorch's modes of interpolation, with its formulas (aten/src/ATen/native/UpSample.h).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from netcl_plugin_conv.windows import WindowAxis

#: The coefficient of the cubic convolution (Keys 1981).
_CUBIC: Final = -0.75


@final
@dataclass(frozen=True, eq=False)
class ResamplingTable:
    """Result o is the sum of `weights[k, o] * x[start[o] + k]` over k < count[o]."""

    start: Any
    count: Any
    weights: Any

    @property
    def taps(self) -> int:
        """The most elements of a result."""
        return int(self.weights.shape[0])

    @property
    def is_plain(self) -> bool:
        """Whether each result is one element as it is."""
        return self.taps == 1 and bool((self.weights == 1).all()) and bool((self.count == 1).all())

    @property
    def is_even(self) -> bool:
        """Whether each result has equally many elements."""
        return bool((self.count == self.taps).all())

    @property
    def step(self) -> int:
        """How far the results' first elements stand apart; 0: not evenly."""
        steps = np.unique(np.diff(self.start))
        return int(steps[0]) if len(steps) == 1 and steps[0] > 0 else 0


@final
@dataclass(frozen=True)
class Resampling:
    """What happens along an axis of `size` elements: `count` results in one of several ways.

    `mode` is "average" (of the windows `axis`, `inside`: only of what is inside; `share`: the
    weight of all elements instead), or a mode of interpolation with the ratio `scale`, the
    distance of results in elements.
    """

    size: int
    count: int
    mode: str
    axis: WindowAxis | None = None
    inside: bool = False
    share: float = 0.0
    scale: float = 0.0
    aligned: bool = False


@lru_cache(maxsize=512)
def table_of(way: Resampling, dtype: str, backwards: bool) -> ResamplingTable:
    """The table of an axis with weights of a dtype, or the one of its gradient."""
    table = _MODES[way.mode](way, np.dtype(dtype).type)
    return _transposed(table, way.size) if backwards else table


def _transposed(table: ResamplingTable, size: int) -> ResamplingTable:
    """The table by which gradients go back: each element's results, in order."""
    results = np.arange(len(table.start))
    pairs = [(table.start + k, results, table.weights[k]) for k in range(table.taps)]
    taken = [k < table.count for k in range(table.taps)]
    element, result, weight = (
        np.concatenate([pair[i][keep] for pair, keep in zip(pairs, taken, strict=True)])
        for i in range(3)
    )
    order = np.lexsort((result, element))
    element, result, weight = element[order], result[order], weight[order]
    count = np.bincount(element, minlength=size)
    first = np.concatenate([[0], np.cumsum(count)[:-1]])
    weights = np.zeros((max(1, int(count.max(initial=0))), size), table.weights.dtype)
    weights[np.arange(len(element)) - first[element], element] = weight
    start = np.zeros(size, np.int64)
    start[element[::-1]] = result[::-1]  # the first of each stays
    return ResamplingTable(start, count, weights)


# -- averages --------------------------------------------------------------------------------


def _average(way: Resampling, real: Any) -> ResamplingTable:
    assert way.axis is not None  # windows have one
    start, end = way.axis.places()
    whole = np.minimum(end, way.size + way.axis.padding) - start
    first, last = np.maximum(start, 0), np.minimum(end, way.size)
    count = np.maximum(last - first, 0)
    shares = np.full(len(start), way.share) if way.share else 1 / (count if way.inside else whole)
    taps = np.arange(max(1, int(count.max(initial=0))))
    return ResamplingTable(first, count, np.where(taps[:, None] < count, shares, 0).astype(real))


# -- interpolation ---------------------------------------------------------------------------


def _nearest(way: Resampling, real: Any) -> ResamplingTable:
    o = np.arange(way.count)
    if way.mode == "nearest":
        at = np.floor(o.astype(real) * real(way.scale))
    else:
        at = np.floor(((o + 0.5) * real(way.scale)).astype(real))
    start = np.minimum(at.astype(np.int64), way.size - 1)
    return ResamplingTable(start, np.ones_like(start), np.ones((1, way.count), real))


def _places(way: Resampling, real: Any) -> Any:
    """Where between the elements each result lies."""
    o = np.arange(way.count, dtype=real)
    scale = real(way.scale)
    return o * scale if way.aligned else scale * (o + real(0.5)) - real(0.5)


def _linear(way: Resampling, real: Any) -> ResamplingTable:
    at = np.maximum(_places(way, real), real(0))
    start = np.minimum(at.astype(np.int64), way.size - 1)
    upper = np.clip(at - start.astype(real), real(0), real(1))
    if way.size == way.count:
        start, upper = np.arange(way.count), np.zeros(way.count, real)
    inside = start < way.size - 1
    lower = np.where(inside, real(1) - upper, real(1))
    weights = np.stack([lower, np.where(inside, upper, real(0))]).astype(real)
    return ResamplingTable(start, 1 + inside.astype(np.int64), weights[: 1 + int(inside.any())])


def _cubic(way: Resampling, real: Any) -> ResamplingTable:
    """Four elements around each place; beyond the border the last one stands in."""
    at = _places(way, real)
    middle = np.floor(at).astype(np.int64)
    t = np.clip(at - middle.astype(real), real(0), real(1))
    a = real(_CUBIC)

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    parts = (far(t + 1), near(t), near(1 - t), far(2 - t))
    places = [np.clip(middle + k, 0, way.size - 1) for k in range(-1, 3)]
    start = places[0]
    weights = np.zeros((4, way.count), real)
    for place, part in zip(places, parts, strict=True):
        weights[place - start, np.arange(way.count)] += part.astype(real)
    return ResamplingTable(
        start, places[3] - start + 1, weights[: int((places[3] - start).max()) + 1]
    )


_MODES: Final[dict[str, Callable[[Resampling, Any], ResamplingTable]]] = {
    "average": _average,
    "nearest": _nearest,
    "nearest-exact": _nearest,
    "linear": _linear,
    "cubic": _cubic,
}


def ratio(size: int, count: int, scale_factor: float | None, aligned: bool) -> float:
    """The distance of results in elements, as PyTorch computes it."""
    if aligned:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    given = scale_factor is not None and scale_factor > 0 and math.isfinite(scale_factor)
    return 1.0 / float(scale_factor or 1.0) if given else size / count
