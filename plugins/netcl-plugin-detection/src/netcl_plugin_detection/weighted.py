"""The two weighted losses: binary cross entropy of clamped probabilities, and smooth L1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_losses.arguments import alike, checked, non_negative, reduce

import netcl_core.autograd as ag
from netcl_plugin_detection.elements import element


def weighted_bce(pred: Any, target: Any, weight: Any, reduction: str = "mean") -> Any:
    """`-weight * (t log p + (1 - t) log(1 - p))` with p = clamp(pred, 1e-7, 1 - 1e-7).

    >>> round(ag.weighted_bce([0.5, 0.9], [1.0, 1.0], [1.0, 2.0]).item(), 4)
    0.4519

    Args:
        pred: Probabilities of any shape, floating. Beyond the clamp the gradient is 0.
        target: Targets in [0, 1] of the same shape.
        weight: Weights of the same shape.
        reduction: `'mean'` (the sum over the number of elements), `'sum'` or `'none'`.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `pred` is not floating.
    """
    checked("weighted_bce", reduction)
    pred, target, weight = alike("weighted_bce", pred=pred, target=target, weight=weight)
    return reduce(element("weighted_bce")(pred, target, weight), reduction)


def weighted_smooth_l1(
    pred: Any, target: Any, weight: Any, beta: float = 1.0, reduction: str = "mean"
) -> Any:
    """`weight * smooth_l1(pred - target)`, see `smooth_l1_loss`.

    >>> ag.weighted_smooth_l1([0.5, 3.0], [0.0, 0.0], [1.0, 2.0]).item()
    2.5625

    Args:
        pred: Predictions of any shape, floating.
        target: True values of the same shape.
        weight: Weights of the same shape.
        beta: Where the quadratic part ends, at least 0.
        reduction: `'mean'` (the sum over the number of elements), `'sum'` or `'none'`.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `pred` is not floating.
    """
    checked("weighted_smooth_l1", reduction)
    beta = non_negative("weighted_smooth_l1", "beta", beta)
    pred, target, weight = alike("weighted_smooth_l1", pred=pred, target=target, weight=weight)
    return reduce(element("weighted_smooth_l1")(pred, target, weight, beta), reduction)


def records() -> Sequence[ag.Operator]:
    """The losses, each with its element loss."""
    operands = ("pred", "target", "weight")
    return [
        ag.composite(weighted_bce, operands, parts=(element("weighted_bce"),)),
        ag.composite(weighted_smooth_l1, operands, parts=(element("weighted_smooth_l1"),)),
    ]
