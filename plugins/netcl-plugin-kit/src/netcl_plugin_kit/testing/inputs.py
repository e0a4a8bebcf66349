"""Inputs that checks make of a case: its shapes and values in other arrangements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netcl_core import DTYPES, Device, Tensor
from netcl_core.autograd import Geometry
from netcl_core.inspect.data import Array, Shape, is_floating


def covector(shape: Shape, dtype: str) -> Array:
    """An upstream gradient of both signs, exact in every dtype."""
    pattern = (5 * np.arange(np.prod(shape, dtype=int)) % 11 - 5.25) / 4
    return pattern.reshape(shape).astype(DTYPES[dtype].numpy)


def pairs_of(values: Sequence[float], count: int) -> list[Array]:
    """All pairs of the values as two inputs, turned a little more for each further one."""
    first, second = (axis.reshape(-1) for axis in np.meshgrid(values, values))
    further = [np.roll(second, 5 * i) for i in range(1, count - 1)]
    return [array.astype(np.float64) for array in (first, second, *further)[:count]]


def for_inputs(shapes: Sequence[Shape], count: int) -> list[Shape]:
    """A shape for each of so many inputs; they are repeated where there are too few."""
    return [shapes[i % len(shapes)] for i in range(count)]


def as_view(array: Array, device: Device) -> Tensor:
    """The same values on a device with gaps between them, in Fortran's order, from an offset on."""
    steps = np.cumprod([2, *(2 * size + 1 for size in array.shape)])
    return _placed(array, device, steps[: array.ndim], 3)


def as_lines(array: Array, device: Device, axis: int) -> Tensor:
    """The same with lines of neighbours along an axis, which begin at multiples of 8 elements."""
    if array.ndim < -axis:
        return Tensor.from_host(array, device)
    order = [axis % array.ndim, *(i for i in range(array.ndim) if i != axis % array.ndim)]
    first, *others = (array.shape[i] for i in order)
    steps = np.cumprod([1, -(-first // 8) * 8 + 8, *(size + 1 for size in others)])
    return _placed(array, device, steps[: array.ndim][np.argsort(order)], 8)


def _placed(array: Array, device: Device, steps: Array, offset: int) -> Tensor:
    last = sum(max(0, n - 1) * int(step) for n, step in zip(array.shape, steps, strict=True))
    flat = np.ones(offset + last + 1, array.dtype)
    view = np.lib.stride_tricks.as_strided(flat[offset:], array.shape, steps * array.itemsize)
    view[...] = array
    places = Geometry(array.shape, tuple(int(step) for step in steps), offset)
    return Tensor.from_host(flat, device).viewed(places)


def away_from(array: Array, kinks: Sequence[float]) -> Array:
    """Floating data with every value at least 0.01 away from the kinks."""
    for kink in kinks if is_floating(array) else ():
        near = np.abs(array - kink) < 0.01
        array = np.where(near, kink + np.where(array < kink, -0.01, 0.01), array)
    return array
