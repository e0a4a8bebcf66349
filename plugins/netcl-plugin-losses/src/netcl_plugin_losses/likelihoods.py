"""Negative logarithms of likelihoods: gaussian_nll_loss, poisson_nll_loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import ShapeError, message
from netcl_plugin_losses.arguments import checked, floating, reduce


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log var + (input - target)^2 / var) / 2: how unlikely a normal distribution makes targets.

    >>> ag.gaussian_nll_loss(nc.tensor([1.0]), nc.tensor([3.0]), nc.tensor([1.0])).item()
    2.0

    Args:
        input: The expected values, floating.
        target: What was found; they broadcast.
        var: The variances: a number, of the input's shape with some axes of size 1, or with
            the last axis absent. They are not looked at: negative ones count as `eps`.
        full: Whether the constant log(2 pi) / 2 is added.
        eps: What a variance counts at least; its gradient flows all the same.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.

    (Nix, Weigend 1994, doi:10.1109/ICNN.1994.374138)

    Raises:
        ShapeError: The shapes do not fit.
    """
    checked("gaussian_nll_loss", reduction)
    mean, label, spread = ag.as_operands(input, target, var)
    floating("gaussian_nll_loss", "input", mean)
    if spread.shape == mean.shape[:-1] != mean.shape:
        spread = ag.unsqueeze(spread, -1)
    elif spread.ndim and not _spreads(spread.shape, mean.shape):
        given = f"var of shape {spread.shape} for an input of shape {mean.shape}"
        expected = "the same with 1 on some axes, or without the last axis"
        raise ShapeError(message("gaussian_nll_loss", given, expected))
    with ag.no_grad():
        missing = ag.where(ag.lt(spread, eps), ag.sub(float(eps), spread), 0.0)
    spread = ag.add(spread, missing.detach())
    far = ag.div(ag.square(ag.sub(mean, label)), spread)
    loss = ag.mul(ag.add(ag.log(spread), far), 0.5)
    return reduce(ag.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


def _spreads(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether sizes are those that are wanted, or 1."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(size in (1, whole) for size, whole in pairs)


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """exp(input) - target * input: how unlikely counts are under Poisson distributions.

    >>> ag.poisson_nll_loss(nc.tensor([0.0]), nc.tensor([2.0])).item()
    1.0

    Args:
        input: The logarithms of the expected counts, floating.
        target: The counts; they broadcast.
        log_input: False: `input` is the expected counts themselves.
        full: Whether log(target!) is added, by Stirling's formula, where a count is above 1.
        eps: What is added to an input before its logarithm is taken.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.
    """
    checked("poisson_nll_loss", reduction)
    rate, count = ag.as_operands(input, target)
    floating("poisson_nll_loss", "input", rate)
    if log_input:
        loss = ag.sub(ag.exp(rate), ag.mul(count, rate))
    else:
        loss = ag.sub(rate, ag.mul(count, ag.log(ag.add(rate, float(eps)))))
    return reduce(ag.add(loss, _log_factorial(count)) if full else loss, reduction)


def _log_factorial(count: Any) -> Any:
    """By Stirling's formula; 0 up to 1."""
    above = ag.gt(count, 1)
    n = ag.where(above, count, 1.0)
    stirling = ag.add(ag.sub(ag.mul(n, ag.log(n)), n), ag.mul(ag.log(ag.mul(n, 2 * math.pi)), 0.5))
    return ag.where(above, stirling, 0.0)


def records() -> Sequence[ag.Operator]:
    """The losses of this module."""
    return [
        ag.composite(gaussian_nll_loss, ("input", "target", "var")),
        ag.composite(poisson_nll_loss, ("input", "target")),
    ]
