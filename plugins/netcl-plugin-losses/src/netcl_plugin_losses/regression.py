"""Losses that compare numbers element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core.autograd import Composite
from netcl_core.errors import ShapeError, message
from netcl_plugin_losses.reduce import checked, reduce


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The squared error `(input - target)^2`, averaged, summed or per element.

    Args:
        input: Predictions of any shape, floating.
        target: True values of the same shape.
        reduction: `'mean'`, `'sum'` or `'none'`.

    Raises:
        ShapeError: the shapes differ (broadcasting would hide a mistake).
    """
    checked("mse_loss", reduction)
    if np.shape(input) != np.shape(target):
        raise ShapeError(
            message(
                "mse_loss",
                f"input of shape {np.shape(input)} and target of shape {np.shape(target)}",
                "equal shapes",
                "Reshape or expand one of them",
            )
        )
    return reduce(ag.square(ag.sub(input, target)), reduction)


RECORDS = (Composite("mse_loss", mse_loss, mse_loss.__doc__ or ""),)
