"""Finite differences: a gradient in float64 against the slope along a random direction.

The output is weighted with a random covector, and each input is moved in a random
direction: `<v, grad> = d/dt <u, f(x + t v)>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from netcl_core import Device
from netcl_core.inspect.data import Array, Shape
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.inputs import away_from
from netcl_plugin_kit.testing.reference import evaluate

#: How far an input is moved to either side; the error of the slope is about its square.
STEP: Final = 1e-6


def check_slopes(case: Case, device: Device, _: str = "float64") -> None:
    """The gradients of every variant in float64 against central differences on a device."""
    for shapes in case.variants:
        arrays = away_from_kinks(case, case.sample(shapes, "float64"))
        _check_variant(case, arrays, device)


def away_from_kinks(case: Case, arrays: Sequence[Array]) -> list[Array]:
    """Inputs at which the op is differentiable, as its case says."""
    return [away_from(array, case.kinks) for array in arrays]


def _check_variant(case: Case, arrays: Sequence[Array], device: Device) -> None:
    where = f"{case} on {device} in float64 for {[array.shape for array in arrays]}"
    weights: list[Array] = []
    random = np.random.default_rng(len(str(case)))

    def upstream(shape: Shape, _: str) -> Array:
        weights.append(np.asarray(random.standard_normal(shape)))
        return weights[-1]

    results = evaluate(case, arrays, device, upstream=upstream)
    for i in (i for i, need in enumerate(case.needs(arrays)) if need):
        assert weights, f"{where}: the output has no gradient"
        gradient = results.gradients[i]
        assert gradient is not None, f"{where}: input {i} got no gradient"
        direction = np.asarray(random.standard_normal(arrays[i].shape))
        shifted = [
            [x + step * direction if k == i else x for k, x in enumerate(arrays)]
            for step in (STEP, -STEP)
        ]
        high, low = (evaluate(case, x, device, [False] * len(x)).outputs for x in shifted)
        rises = [
            (weight * (high[k] - low[k])).reshape(-1)
            for k, weight in zip(results.flowing, weights, strict=True)
        ]
        rise = np.concatenate(rises)
        judge(gradient * direction, rise, f"{where}: gradient of input {i}", case)


def judge(terms: Array, rise: Array, what: str, case: Case) -> None:
    """Raise AssertionError unless the gradient's `terms` add up to the slope of the `rise`."""
    along, slope = terms.sum(), rise.sum() / (2 * STEP)
    bound = 1e-5 * (abs(along) + np.sqrt(np.square(terms).sum())) + 1e-7
    assert abs(slope - along) <= bound * case.tolerance, (
        f"{what}: {along} along a random direction; finite differences give {slope}"
    )
