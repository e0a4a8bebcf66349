"""Where each tap of a convolution reads: affine walks over a source that is padded with zeros.

A walk goes over positions; at each, tap m of a dimension reads the padded source at
`position * step + first + m * tap_step`, which kernel element `kernel_first + m * kernel_step`
weighs, and the sum is the output at `out_first + position * out_step`. A convolution is one walk. A
transposed convolution is one per remainder of the output's index by the stride: there only some
taps meet elements of the source, and they step by whole elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from netcl_core import Spec

#: All is computed in three spatial dimensions; missing ones have one element.
DIMS = 3


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a walk.

    `before` zeros stand before the `source` elements in the `padded` ones; negative: cropped.
    """

    source: int
    before: int
    padded: int
    count: int
    step: int
    taps: int
    first: int
    tap_step: int
    kernel: int
    kernel_first: int
    kernel_step: int
    out: int
    out_first: int
    out_step: int


@dataclass(frozen=True, slots=True)
class Problem:
    """The walks of an op with what they have in common.

    The weight of group g, output channel o, input channel c begins at
    `(g * channels * outputs + o * weight_output + c * weight_channel) * volume of the kernel`.
    """

    batch: int
    groups: int
    channels: int
    outputs: int
    weight_output: int
    weight_channel: int
    walks: tuple[tuple[Axis, ...], ...]


def lifted(spec: Spec, dims: int) -> tuple[int, ...]:
    """The shape with a batch and three spatial sizes."""
    lead = spec.shape[: spec.ndim - dims]
    return (*(1,) * (2 - len(lead)), *lead, *(1,) * (DIMS - dims), *spec.shape[spec.ndim - dims :])


def _raised(values: Sequence[Any], missing: Any) -> tuple[Any, ...]:
    return (*(missing,) * (DIMS - len(values)), *values)


def forward(x: Spec, weight: Spec, out: Spec, attrs: Mapping[str, Any]) -> Problem:
    """A convolution, and likewise the gradient of its weight."""
    dims, groups = len(attrs["stride"]), attrs["groups"]
    source, target = lifted(x, dims), lifted(out, dims)
    kernel = _raised(weight.shape[2:], 1)
    settings = zip(
        source[2:], target[2:], kernel, _raised(attrs["stride"], 1),
        _raised(attrs["dilation"], 1), _raised(attrs["padding"], (0, 0)), strict=True,
    )  # fmt: skip
    axes = tuple(_forward_axis(*setting) for setting in settings)
    channels, outputs = source[1] // groups, target[1] // groups
    return Problem(source[0], groups, channels, outputs, channels, 1, (axes,))


def _forward_axis(
    size: int, out: int, kernel: int, stride: int, dilation: int, padding: tuple[int, int]
) -> Axis:
    padded = (out - 1) * stride + (kernel - 1) * dilation + 1
    return Axis(size, padding[0], padded, out, stride, kernel, 0, dilation, kernel, 0, 1,
                out, 0, 1)  # fmt: skip


def transposed(x: Spec, weight: Spec, out: Spec, attrs: Mapping[str, Any]) -> Problem:
    """A transposed convolution, the gradient of a convolution's input."""
    dims, groups = len(attrs["stride"]), attrs["groups"]
    source, target = lifted(x, dims), lifted(out, dims)
    kernel = _raised(weight.shape[2:], 1)
    settings = zip(
        source[2:], target[2:], kernel, _raised(attrs["stride"], 1),
        _raised(attrs["dilation"], 1), _raised(attrs["padding"], (0, 0)), strict=True,
    )  # fmt: skip
    walks = tuple(product(*(_transposed_axes(*setting) for setting in settings)))
    channels, outputs = source[1] // groups, target[1] // groups
    return Problem(source[0], groups, channels, outputs, 1, outputs, walks)


def _transposed_axes(
    size: int, out: int, kernel: int, stride: int, dilation: int, padding: tuple[int, int]
) -> list[Axis]:
    """One per remainder r that occurs: taps t with `r + before - t * dilation` divisible."""
    common = math.gcd(stride, dilation)
    apart, back = stride // common, dilation // common
    taps_of_phase = []
    for r in range(min(stride, out)):
        fits = [
            t for t in range(min(apart, kernel)) if not (r + padding[0] - t * dilation) % stride
        ]
        start = fits[0] if fits else 0
        taps = -(-(kernel - start) // apart) if fits else 0
        first = (r + padding[0] - start * dilation) // stride
        taps_of_phase.append((r, start, taps, first, -(-(out - r) // stride)))
    used = [each for each in taps_of_phase if each[2]]
    least = min((first - (taps - 1) * back for _, _, taps, first, _ in used), default=0)
    most = max((first + count - 1 for _, _, _, first, count in used), default=0)
    return [
        Axis(size, -least, most - least + 1, count, 1, taps, first - least, -back, kernel, start,
             apart, out, r, stride)
        for r, start, taps, first, count in taps_of_phase
    ]  # fmt: skip


def spread(
    x: Spec, weight: Spec, out: Spec, attrs: Mapping[str, Any]
) -> tuple[Problem, tuple[int, ...]]:
    """A transposed convolution as a single walk, and how far apart that has the source's elements.

    Between them it reads zeros: more products than `transposed` has, in one launch.
    """
    problem = transposed(x, weight, out, attrs)
    settings = zip(
        problem.walks[0], _raised(attrs["dilation"], 1), _raised(attrs["padding"], (0, 0)),
        strict=True,
    )  # fmt: skip
    axes = tuple(_spread_axis(*setting) for setting in settings)
    return replace(problem, walks=(axes,)), _raised(attrs["stride"], 1)


def _spread_axis(axis: Axis, back: int, padding: tuple[int, int]) -> Axis:
    reach = (axis.kernel - 1) * back
    return Axis(axis.source, reach - padding[0], axis.out + reach, axis.out, 1, axis.kernel, reach,
                -back, axis.kernel, 0, 1, axis.out, 0, 1)  # fmt: skip
