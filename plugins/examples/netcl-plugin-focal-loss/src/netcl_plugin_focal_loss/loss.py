"""focal_loss: its arguments checked, its elements reduced."""

from __future__ import annotations

from functools import cache
from typing import Any

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor, default_device
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message

REDUCTIONS = ("mean", "sum", "none")


def focal_loss(
    input: Any, target: Any, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "mean"
) -> Any:
    """`-share * (1 - p)^gamma * log(p)` of the probability p that a logit gives to its label.

    The cross entropy of two classes, with less weight on what is classified well already.
    (Lin et al. 2017, arXiv:1708.02002)

    Args:
        input: Logits of any shape, floating.
        target: Labels 0 and 1 of the same shape, of any dtype; they get no gradient.
        alpha: The share of label 1, in [0, 1]; label 0 has `1 - alpha`.
        gamma: How much a good classification is discounted, at least 0.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.

    Raises:
        ShapeError, DtypeError: operands that do not fit.
        AttributeValueError: alpha, gamma or the reduction out of range.
    """
    given = f"alpha={alpha!r}, gamma={gamma!r}, reduction={reduction!r}"
    if not 0 <= alpha <= 1 or gamma < 0 or reduction not in REDUCTIONS:
        expected = f"alpha in [0, 1], gamma of at least 0, one of {', '.join(REDUCTIONS)}"
        raise AttributeValueError(message("focal_loss", given, expected))
    input, target = operands(input, target)
    elements = focal_elements()(input, target, alpha=alpha, gamma=gamma)
    if reduction == "none":
        return elements
    return ag.mean(elements) if reduction == "mean" else ag.sum(elements)


@cache
def focal_elements() -> ag.AutogradPrimitive:
    """The loss of each element."""
    return ag.AutogradPrimitive.from_template("focal-loss/focal_elements.cl.j2")


def operands(input: Any, target: Any) -> tuple[Any, Any]:
    """Both on one device, host data brought there; raises if they do not fit each other."""
    placed = (operand.device for operand in (input, target) if isinstance(operand, Tensor))
    device = next(placed, default_device())
    input, target = ag.as_operand(input, device), ag.as_operand(target, device)
    if input.shape != target.shape:  # broadcasting would hide a mistake
        given = f"input of shape {input.shape} and target of shape {target.shape}"
        raise ShapeError(message("focal_loss", given, "equal shapes"))
    if not DTYPES[input.dtype].floating:
        given, remedy = f"input of dtype {input.dtype}", "Use astype('float32')"
        raise DtypeError(message("focal_loss", given, "floating logits", remedy))
    return input, target
