"""fused_weighted_bce_smooth_l1_loss, and the patterns for both losses written out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from netcl_plugin_losses.arguments import FLOATING, alike, non_negative
from netcl_plugin_patterns import Captured, MatchedOp, TrainingPattern

import netcl_core.autograd as ag
from netcl_plugin_detection.one_pass import OPERANDS, TEMPLATE, weighted_sum

WHO: Final = "fused_weighted_bce_smooth_l1_loss"
PATTERN: Final = "weighted_bce_smooth_l1_sum"


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

    >>> pred, target = nc.tensor([0.9, 0.2]), nc.tensor([1.0, 0.0])
    >>> loss = ag.fused_weighted_bce_smooth_l1_loss(pred, target, nc.ones(2), nc.ones(2))
    >>> round(loss.item(), 4)
    0.5785

    The BCE is `weighted_bce`, of pred clamped to [1e-7, 1 - 1e-7]; beyond, its
    gradient is 0. The smooth L1 takes pred as it is. Only `pred` gets a gradient.

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
    beta = non_negative(WHO, "beta", beta)
    operands = alike(WHO, pred=pred, target=target, heat_weight=heat_weight, reg_weight=reg_weight)
    constants = [operand.detach() for operand in operands[1:]]
    return weighted_sum()(operands[0], *constants, float(heat_scale), float(reg_scale), beta)


def records() -> Sequence[ag.Operator]:
    """The loss, with its kernels."""
    return [ag.composite(fused_weighted_bce_smooth_l1_loss, OPERANDS, parts=(weighted_sum(),))]


# -- both losses, written out ---------------------------------------------------------------

#: The two sums, and the same times a number.
_BCE: Final = MatchedOp("weighted_bce", ("pred", "target", "heat_weight"), (("reduction", "sum"),))
_SMOOTH_L1: Final = MatchedOp(
    "weighted_smooth_l1",
    ("pred", "target", "reg_weight"),
    (("beta", Captured("beta")), ("reduction", "sum")),
)


def _planned(
    pred: Any,
    target: Any,
    heat_weight: Any,
    reg_weight: Any,
    beta: float,
    heat_scale: float = 1.0,
    reg_scale: float = 1.0,
) -> Any:
    """The sum by one pass, for operands of one dtype."""
    if len({x.dtype for x in (pred, target, heat_weight, reg_weight)}) > 1:
        return None
    scales = float(heat_scale), float(reg_scale)
    return weighted_sum()(pred, target, heat_weight, reg_weight, *scales, beta)


def patterns() -> Sequence[TrainingPattern]:
    """Both losses added up, of which either may be times a number."""
    records = []
    for heat, reg in itertools.product((False, True), repeat=2):
        bce = MatchedOp("mul", (_BCE, Captured("heat_scale"))) if heat else _BCE
        smooth_l1 = MatchedOp("mul", (_SMOOTH_L1, Captured("reg_scale"))) if reg else _SMOOTH_L1
        scaled = [word for word, is_scaled in (("heat", heat), ("reg", reg)) if is_scaled]
        name = "_".join([PATTERN, *scaled])
        text = f"weighted_bce + weighted_smooth_l1, sums{' with scales' if scaled else ''}"
        records.append(
            TrainingPattern(
                name,
                MatchedOp("add", (bce, smooth_l1)),
                _planned,
                templates=(TEMPLATE,),
                dtypes=FLOATING,
                parts=(weighted_sum(),),
                doc=f"{text}: one pass over the operands, which leaves the gradient of pred.",
            )
        )
    return records
