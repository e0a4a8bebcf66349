"""Finite differences: a gradient in float64 against the slope along a random direction.

The output is weighted with a random covector, and each input is moved in a random
direction: `<v, grad> = d/dt <u, f(x + t v)>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from netcl_core.autograd import backward, no_grad
from netcl_core.device.device import Device
from netcl_core.device.device_table import use_device
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor
from netcl_core.testing.cases import Case
from netcl_core.testing.samples import away_from

#: How far an input is moved to either side; the error of the slope is about its square.
STEP: Final = 1e-6


def check_slopes(case: Case, device: Device) -> None:
    """The gradients of every variant in float64 against central differences on a device."""
    for shapes in case.variants:
        arrays = away_from_kinks(case, case.sample(shapes, "float64"))
        _check_variant(case, arrays, device)


def away_from_kinks(case: Case, arrays: Sequence[Array]) -> list[Array]:
    """Inputs at which the op is differentiable, as its case says."""
    return [away_from(array, case.kinks) for array in arrays]


def _check_variant(case: Case, arrays: Sequence[Array], device: Device) -> None:
    where = f"{case} on {device} in float64 for {[array.shape for array in arrays]}"
    random = np.random.default_rng(len(str(case)))
    needs = case.needs(arrays)
    with use_device(device):
        tensors = [
            Tensor.from_host(array, device, requires_grad=need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        result = case.run(*tensors)
        weights = np.asarray(random.standard_normal(result.shape))
        if not result.requires_grad:
            assert not any(needs), f"{where}: the output has no gradient"
            return
        backward(result, weights)
    for i in (i for i, need in enumerate(needs) if need):
        direction = np.asarray(random.standard_normal(arrays[i].shape))

        def height(step: float, i: int = i, direction: Array = direction) -> Any:
            moved = [x + step * direction if k == i else x for k, x in enumerate(arrays)]
            with use_device(device), no_grad():
                return case.run(*[Tensor.from_host(x, device) for x in moved]).to_host()

        gradient = tensors[i].grad
        assert gradient is not None, f"{where}: input {i} got no gradient"
        rise = weights * (height(STEP) - height(-STEP))
        judge(gradient.to_host() * direction, rise, f"{where}: gradient of input {i}", case)


def judge(terms: Array, rise: Array, what: str, case: Case) -> None:
    """Raise AssertionError unless the gradient's `terms` add up to the slope of the `rise`."""
    along, slope = terms.sum(), rise.sum() / (2 * STEP)
    bound = 1e-5 * (abs(along) + np.sqrt(np.square(terms).sum())) + 1e-7
    assert abs(slope - along) <= bound * case.tolerance, (
        f"{what}: {along} along a random direction; finite differences give {slope}"
    )
