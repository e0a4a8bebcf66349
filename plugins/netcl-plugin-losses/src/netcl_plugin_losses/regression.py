"""Losses that compare numbers element by element: squared, absolute, and between the two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_losses.arguments import alike, checked, non_negative, reduce
from netcl_plugin_losses.elements import element


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The squared error `(input - target)^2`, averaged, summed or per element.

    >>> ag.mse_loss(nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])).item()
    2.0

    Args:
        input: Predictions of any shape, floating.
        target: True values of the same shape.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.

    Raises:
        ShapeError: the shapes differ (broadcasting would hide a mistake).
        DtypeError: `input` is not floating.
    """
    checked("mse_loss", reduction)
    input, target = alike("mse_loss", input=input, target=target)
    wide = DTYPES[input.dtype].wide
    if reduction == "none" or input.dtype != target.dtype or wide == input.dtype:
        return reduce(element("squared_error")(input, target), reduction)
    elements = element("squared_error")(input, target.astype(wide))  # 256^2 overflows in float16
    return reduce(elements, reduction).astype(input.dtype)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """The absolute error `|input - target|`; its gradient is 0 where both are equal.

    Arguments and errors as of `mse_loss`.

    >>> ag.l1_loss(nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])).item()
    1.0
    """
    checked("l1_loss", reduction)
    input, target = alike("l1_loss", input=input, target=target)
    return reduce(element("absolute_error")(input, target), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """With d = input - target: d^2 / (2 beta) where |d| < beta, else |d| - beta / 2.

    >>> ag.smooth_l1_loss(nc.tensor([0.5, 4.0]), nc.tensor([0.0, 0.0])).item()
    1.8125

    Args:
        beta: Where the quadratic part ends, at least 0; 0 gives `l1_loss`.

    The other arguments and errors as of `mse_loss`. (Girshick 2015, arXiv:1504.08083)
    """
    checked("smooth_l1_loss", reduction)
    input, target = alike("smooth_l1_loss", input=input, target=target)
    beta = non_negative("smooth_l1_loss", "beta", beta)
    return reduce(element("smooth_l1")(input, target, beta), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """With d = input - target: d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2).

    >>> ag.huber_loss(nc.tensor([1.0, 4.0]), nc.tensor([0.0, 0.0]), delta=2.0).item()
    3.25

    Args:
        delta: Where the quadratic part ends, more than 0.

    The other arguments and errors as of `mse_loss`. (Huber 1964)

    Raises:
        AttributeValueError: Unless given more than 0.
    """
    checked("huber_loss", reduction)
    input, target = alike("huber_loss", input=input, target=target)
    delta = non_negative("huber_loss", "delta", delta)
    if not delta:
        raise AttributeValueError(message("huber_loss", "delta=0", "more than 0"))
    return reduce(element("huber")(input, target, delta), reduction)


def records() -> Sequence[ag.Operator]:
    """The losses, each with its element loss."""
    table = {
        mse_loss: "squared_error",
        l1_loss: "absolute_error",
        smooth_l1_loss: "smooth_l1",
        huber_loss: "huber",
    }
    return [
        ag.composite(function, ("input", "target"), parts=(element(name),))
        for function, name in table.items()
    ]
