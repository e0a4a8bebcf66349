"""A model's weights, drawn by the names and shapes of its parameters: equal in each library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from harness.cases import Array

_SMALL: Final = np.float32(0.02)


def drawn(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Weights by name: those of products keep the scale of what they get.

    >>> found = drawn({"0.weight": (2, 100), "1.weight": (3,), "1.bias": (3,)})
    >>> [round(float(each.mean()), 1) for each in found.values()]
    [-0.0, 1.0, -0.0]
    """
    random, arrays = np.random.default_rng(0), {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape, np.float32)
        if len(shape) > 1:
            arrays[name] = values * np.float32(np.prod(shape[1:]) ** -0.5)
        else:
            arrays[name] = values * _SMALL + np.float32(name.endswith("weight"))
    return arrays
