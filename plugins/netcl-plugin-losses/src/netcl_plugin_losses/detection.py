"""Losses of object detection: weights per element, probabilities clamped before the logarithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_plugin_losses.arguments import alike, checked, reduce
from netcl_plugin_losses.elements import element
from netcl_plugin_losses.regression import non_negative


def weighted_bce(pred: Any, target: Any, weight: Any, reduction: str = "mean") -> Any:
    """`-weight * (t log p + (1 - t) log(1 - p))` with p = clamp(pred, 1e-7, 1 - 1e-7).

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


def fused_weighted_bce_smooth_l1_loss(
    pred: Any,
    target: Any,
    heat_weight: Any,
    reg_weight: Any,
    heat_scale: float = 1.0,
    reg_scale: float = 1.0,
    beta: float = 0.05,
) -> Any:
    """The sum of `heat_scale * heat_weight * BCE + reg_scale * reg_weight * smooth L1`.

    The BCE is that of `weighted_bce`, of pred clamped to [1e-7, 1 - 1e-7]; beyond, its
    gradient is 0. The smooth L1 is that of pred as it is. Only `pred` gets a gradient.

    Args:
        pred: Probabilities of any shape, floating.
        target: Targets in [0, 1] of the same shape.
        heat_weight: Weights of the BCE, of the same shape.
        reg_weight: Weights of the smooth L1, of the same shape.
        heat_scale: A factor on the BCE.
        reg_scale: A factor on the smooth L1.
        beta: Where the quadratic part of the smooth L1 ends, at least 0.

    Returns:
        A 0-d value; nothing waits for the device.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `pred` is not floating.
    """
    who = "fused_weighted_bce_smooth_l1_loss"
    beta = non_negative(who, "beta", beta)
    operands = alike(who, pred=pred, target=target, heat_weight=heat_weight, reg_weight=reg_weight)
    constants = [operand.detach() for operand in operands[1:]]
    elements = element("weighted_bce_smooth_l1")(
        operands[0], *constants, heat_scale, reg_scale, beta
    )
    return ag.sum(elements)


def records() -> Sequence[ag.Operator]:
    """The losses, each with its element loss."""
    operands = ("pred", "target", "weight")
    fused = ("pred", "target", "heat_weight", "reg_weight")
    return [
        ag.composite(weighted_bce, operands, parts=(element("weighted_bce"),)),
        ag.composite(weighted_smooth_l1, operands, parts=(element("weighted_smooth_l1"),)),
        ag.composite(
            fused_weighted_bce_smooth_l1_loss, fused, parts=(element("weighted_bce_smooth_l1"),)
        ),
    ]
