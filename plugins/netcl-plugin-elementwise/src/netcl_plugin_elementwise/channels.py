"""Operands that belong to the channels of another: those of prelu."""

from __future__ import annotations

from typing import Any

import numpy as np

from netcl_core import Operand, Tensor
from netcl_core.errors import ShapeError, message


def slopes_per_channel(x: Any, weight: Any) -> tuple[Any, Any]:
    """x, and prelu's weight as it broadcasts against x: several slopes stand along axis 1.

    The weight is a number or a tensor of no or one dimension; as in PyTorch, x of fewer than two
    dimensions has one channel. Raises ShapeError for any other weight.
    """
    shape, slopes = _shape(x), _shape(weight)
    channels = shape[1] if len(shape) > 1 else 1
    if len(slopes) > 1 or (slopes and slopes[0] not in {1, channels}):
        given = f"a weight of shape {slopes} for x of shape {shape}"
        expected = "one slope, or shape (1,)"
        if channels != 1:
            expected = f"one slope, or shape ({channels},), one for each channel (axis 1)"
        raise ShapeError(message("prelu", given, expected))
    aligned = (slopes[0], *[1] * (len(shape) - 2)) if slopes and shape else ()
    if slopes in {(), aligned} or (shape and channels == 1):
        return x, weight
    if not isinstance(weight, Operand):
        weight = Tensor.from_host(weight, x.device if isinstance(x, Operand) else None)
    return x, weight.reshape(aligned)


def _shape(value: Any) -> tuple[int, ...]:
    if isinstance(value, (int, float)):
        return ()
    return tuple(value.shape) if isinstance(value, Operand) else np.shape(value)
