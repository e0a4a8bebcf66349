"""One node's gradients beside the slopes of its forward: what both kinds of check share.

The slopes of the forward are measured in float64 at the inputs and at a few points that
rounding cannot tell from them; a gradient has to lie between the smallest and the largest.
The margin beyond follows from the measurement's error and from the dtype's rounding, never
from the gradient itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Tensor
from netcl_core.inspect.data import Array
from netcl_core.inspect.recorded import whole
from netcl_plugin_kit.numerics.exact_forward import ExactForward, host_arrays

#: How many points around the inputs are looked at, and how far they are, in units of rounding.
_POINTS: Final = 3
_SPREAD: Final = 16
#: A recomputed forward that is further from the node's value means that an input was changed.
_STALE: Final = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 2e-3, "float64": 1e-6}


@final
@dataclass(frozen=True, slots=True)
class Doubt:
    """A gradient that contradicts the forward: of which input, where, and what was measured.

    Without an element it is that of several along a direction of length 1.
    """

    index: int
    element: tuple[int, ...] | None
    given: float
    low: float
    high: float


@final
@dataclass(frozen=True, slots=True)
class Rounding:
    """The unit roundoffs that a gradient meets: of its dtype, and of the arithmetic behind it."""

    stored: float
    inner: float
    tiny: float

    @property
    def relative(self) -> float:
        """Of a product: a few roundings, and 64 units for the functions of OpenCL."""
        return 8 * self.stored + 64 * min(self.inner, 2.0**-24)

    @property
    def most_bend(self) -> float:
        """Of a function that saturates within rounding (tanh, softmax), how fast it does so."""
        return -4 * float(np.log(self.inner))


def rounding_of(gradient: Tensor, elementwise: bool) -> Rounding:
    """Elementwise kernels compute in the wide dtype; other ops keep values in their dtype."""
    dtype = DTYPES[gradient.dtype]
    stored, computed = dtype.limits, DTYPES[dtype.wide].limits
    inner = computed if elementwise else stored
    tiny = float(stored.smallest_subnormal) * 4 if dtype.wide != dtype.name else 0.0
    tiny = max(float(tiny), float(computed.tiny) / float(computed.eps))
    return Rounding(float(stored.eps) / 2, float(inner.eps) / 2, tiny)


@final
class GradientTrial:
    """A node with its upstream gradients (one array per result, flat) and those of its inputs."""

    def __init__(
        self,
        node: Any,
        forward: ExactForward,
        upstream: Sequence[Any],
        gradients: Sequence[Tensor | None],
    ) -> None:
        self.node = node
        self.gradients = gradients
        self.forward = forward
        self.arrays = host_arrays(node.inputs)
        self.results = [np.asarray(result) for result in self.forward.run(self.arrays)]
        most = int(np.prod(self.forward.shape))
        sizes = [most if result.size == 1 else result.size for result in self.results]
        given = [_whole(upstream[i], size) for i, size in enumerate(sizes)]
        self.upstream = rows_of(given, max(most, *sizes))

    @property
    def stale(self) -> bool:
        """Whether the node's value is not that of its inputs: one was changed in place since.

        Where the backward does not read an input, this is allowed.
        """
        value = self.node.value
        if not DTYPES[value.dtype].floating:
            return True
        now, then = np.broadcast_to(self.results[0], value.shape), value.to_host()
        known = np.isfinite(now) & np.isfinite(then)
        apart = np.abs(now - then.astype(np.float64))[known]
        largest = np.abs(now[known]).max(initial=0.0)
        return bool(apart.max(initial=0.0) > _STALE[value.dtype] * largest)

    @property
    def floating(self) -> list[int]:
        """The inputs whose gradients can be checked."""
        pairs = enumerate(zip(self.node.inputs, self.gradients, strict=True))
        return [
            i
            for i, (x, gradient) in pairs
            if gradient is not None
            and isinstance(x, Tensor)
            and DTYPES[x.dtype].floating
            and gradient.size
        ]

    def at_infinity(
        self, index: int, given: Array, rounding: Rounding, settled: Any = True
    ) -> Doubt | None:
        """The doubt of an element that is infinite, where the results are finite (`settled`).

        No step moves it; but results that are finite have reached a limit there, so its gradient
        is 0, as that of a score that a mask makes -inf.
        """
        largest = rounding.tiny * (1 + np.abs(self.upstream).max(initial=0.0))
        x = self.arrays[index].reshape(-1)
        off = np.isfinite(given) & (np.abs(given) > largest)
        wrong = np.flatnonzero(np.isinf(x) & off & settled)
        if not wrong.size:
            return None
        place = tuple(int(i) for i in np.unravel_index(wrong[0], self.arrays[index].shape))
        return Doubt(index, place, float(given[wrong[0]]), 0.0, 0.0)

    def random(self, index: int) -> np.random.Generator:
        """Random numbers that are the same for the same node and input."""
        return np.random.default_rng((self.node.number, index))

    def points(self, arrays: Sequence[Any], random: np.random.Generator) -> list[list[Any]]:
        """The inputs, and points around them that rounding cannot tell from them."""
        points = [list(arrays)]
        for _ in range(_POINTS):
            points.append([self._shaken(i, array, random) for i, array in enumerate(arrays)])
        return points

    def _shaken(self, index: int, array: Any, random: np.random.Generator) -> Any:
        x = self.node.inputs[index]
        if not isinstance(x, Tensor) or not DTYPES[x.dtype].floating:
            return array
        elementwise = self.forward.coarse is not None
        kept = DTYPES[DTYPES[x.dtype].wide if elementwise else x.dtype]
        unit = float(kept.limits.eps) / 2
        moved = array * (1 + _SPREAD * unit * random.uniform(-1, 1, array.shape))
        return moved.astype(kept.numpy).astype(np.float64)


def rows_of(results: Sequence[Array], size: int) -> Array:
    """A row each, with zeros behind the shorter ones: results of one node have any sizes."""
    rows = np.zeros((len(results), size), np.result_type(*results))
    for row, result in zip(rows, results, strict=True):
        row[: result.size] = result.reshape(-1)
    return rows


def _whole(gradient: Any, size: int) -> Array:
    """The upstream gradient of a result of some size; None is zeros."""
    if gradient is None:
        return np.zeros(size)
    return np.broadcast_to(np.asarray(whole(gradient).to_host(), np.float64).reshape(-1), (size,))


def hull(lows: Sequence[Array], highs: Sequence[Array]) -> tuple[Array, Array]:
    """The bounds around several points, as far beyond as the points differ from each other.

    How wide they are at one point (at a kink) adds nothing.
    """
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    single = np.max(np.subtract(highs, lows), axis=0)
    apart = np.maximum(high - low - single, 0)
    apart = np.where(np.isfinite(apart), apart, 0)
    return low - apart, high + apart


def times(weights: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Bounds times weights; what has no weight does not count, even if it has no bounds."""
    ends = np.stack([weights * low, weights * high])
    return (
        np.where(weights == 0, 0.0, ends.min(axis=0)),
        np.where(weights == 0, 0.0, ends.max(axis=0)),
    )
