"""Losses of probabilities: binary cross entropy and the Kullback-Leibler divergence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor, widened
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_losses.arguments import alike, checked, reduce, weighted
from netcl_plugin_losses.elements import element


def _check_probabilities(operands: Sequence[Any]) -> None:
    values = widened(operands[0].to_host())
    wrong = values[~((values >= 0) & (values <= 1))]
    if wrong.size:
        remedy = "Apply sigmoid first, or use binary_cross_entropy_with_logits"
        given = f"an input of {wrong[0]:g}"
        raise AttributeValueError(
            message("binary_cross_entropy", given, "probabilities, from 0 to 1", remedy)
        )


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """`-weight * (t log p + (1 - t) log(1 - p))` of probabilities p and targets t.

    >>> round(ag.binary_cross_entropy(nc.tensor([0.9, 0.2]), nc.tensor([1.0, 0.0])).item(), 4)
    0.1643

    Args:
        input: Probabilities in [0, 1] of any shape, floating. Beyond the interval the loss is
            NaN, and reading it raises, so that no step waits for a check.
        target: Targets in [0, 1] of the same shape.
        weight: Weights that broadcast to this shape; the mean still counts elements.
        reduction: `'mean'`, `'sum'` or `'none'`.

    As in PyTorch the logarithms are at least -100, and p (1 - p) in the gradient's
    denominator at least 1e-12.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `input` is not floating.
        AttributeValueError: when the loss is read, for numbers that are no probabilities.
    """
    checked("binary_cross_entropy", reduction)
    input, target = alike("binary_cross_entropy", input=input, target=target)
    if isinstance(input.value, Tensor):  # else it stands for the values of a compiled function
        ag.check_at_nan(_check_probabilities, [input.value])
    elements = element("binary_cross_entropy")(input, target)
    return reduce(weighted(elements, weight), reduction)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """The binary cross entropy of sigmoid(input), without overflow or cancellation.

    `weight * (pos_weight * t * softplus(-x) + (1 - t) * softplus(x))` of logits x.

    >>> round(ag.binary_cross_entropy_with_logits(nc.tensor([0.0]), nc.tensor([1.0])).item(), 4)
    0.6931

    Args:
        input: Logits of any shape, floating.
        target: Targets in [0, 1] of the same shape.
        weight: Weights that broadcast to this shape; the mean still counts elements.
        reduction: `'mean'`, `'sum'` or `'none'`.
        pos_weight: Weights of the positive class that broadcast to this shape.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `input` is not floating.
    """
    checked("binary_cross_entropy_with_logits", reduction)
    input, target = alike("binary_cross_entropy_with_logits", input=input, target=target)
    positive = 1.0 if pos_weight is None else ag.as_operands(input, pos_weight)[1]
    elements = element("binary_cross_entropy_with_logits")(input, target, positive)
    return reduce(weighted(elements, weight), reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """The divergence `t * (log t - x)` of probabilities t from log-probabilities x.

    >>> log_p, q = nc.tensor([[0.5, 0.5]]).log(), nc.tensor([[0.25, 0.75]])
    >>> round(ag.kl_div(log_p, q, reduction="batchmean").item(), 4)
    0.1308

    Args:
        input: Log-probabilities of any shape, floating.
        target: Probabilities of the same shape, or their logarithms with `log_target`.
        reduction: `'mean'` over the elements, `'batchmean'` (the sum over the size of the
            first dimension, which is the divergence proper), `'sum'` or `'none'`.

    Raises:
        ShapeError, DtypeError: the shapes differ, or `input` is not floating.
    """
    batch = reduction == "batchmean"
    checked("kl_div", "sum" if batch else reduction)
    input, target = alike("kl_div", input=input, target=target)
    elements = element("kl_div_log" if log_target else "kl_div")
    if not batch:
        return reduce(elements(input, target), reduction)
    count = input.shape[0] if input.ndim else 1
    losses = elements(input, target)
    wide = DTYPES[losses.dtype].wide
    return ag.div(ag.sum(losses, dtype=wide), count).astype(losses.dtype)


def records() -> Sequence[ag.Operator]:
    """The losses, each with its element losses."""
    logits = "binary_cross_entropy_with_logits"
    weighted = ("input", "target", "weight")
    return [
        ag.composite(binary_cross_entropy, weighted, parts=(element("binary_cross_entropy"),)),
        ag.composite(
            binary_cross_entropy_with_logits, (*weighted, "pos_weight"), parts=(element(logits),)
        ),
        ag.composite(kl_div, ("input", "target"), parts=(element("kl_div"), element("kl_div_log"))),
    ]
