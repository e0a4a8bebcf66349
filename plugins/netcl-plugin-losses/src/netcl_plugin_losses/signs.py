"""Losses of a target that is 1 or -1: soft_margin, hinge_embedding, cosine_embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_plugin_losses.arguments import checked, floating, reduce


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """log(1 + exp(-target * input)), finite for every finite input.

    >>> round(ag.soft_margin_loss(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 1.0])).item(), 4)
    0.41

    Args:
        input: Scores, floating.
        target: 1 or -1; they broadcast.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.
    """
    checked("soft_margin_loss", reduction)
    scores, sign = ag.as_operands(input, target)
    floating("soft_margin_loss", "input", scores)
    return reduce(ag.neg(ag.logsigmoid(ag.mul(sign, scores))), reduction)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """The input itself, a distance, where the target is 1; max(0, margin - input) where it is -1.

    >>> ag.hinge_embedding_loss(nc.tensor([0.5, 0.5]), nc.tensor([1, -1])).item()
    0.5

    Args:
        input: Distances, floating.
        target: 1 or -1; they broadcast.
        margin: How large a distance is to be where the target is -1.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.
    """
    checked("hinge_embedding_loss", reduction)
    apart, sign = ag.as_operands(input, target)
    floating("hinge_embedding_loss", "input", apart)
    short = ag.clamp(ag.sub(float(margin), apart), min=0)
    near, far = ag.where(ag.ne(sign, -1), apart, 0.0), ag.where(ag.ne(sign, 1), short, 0.0)
    return reduce(ag.add(near, far), reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1, of the angle between two.

    >>> x, y = nc.tensor([[1.0, 0.0]]), nc.tensor([[0.0, 1.0]])
    >>> ag.cosine_embedding_loss(x, y, nc.tensor([1])).item()
    1.0

    Args:
        input1: Vectors (N, features) or (features,), floating.
        input2: Others.
        target: 1 or -1, (N,) or a number.
        margin: From where on a cosine is too large where the target is -1.
        reduction: `'mean'` over all pairs, `'sum'` or `'none'`.
    """
    checked("cosine_embedding_loss", reduction)
    first, second, sign = ag.as_operands(input1, input2, target)
    floating("cosine_embedding_loss", "input1", first)
    lengths = [ag.add(ag.sum(ag.square(x), -1), 1e-12) for x in (first, second)]
    cosine = ag.div(ag.sum(ag.mul(first, second), -1), ag.sqrt(ag.mul(*lengths)))
    near = ag.where(ag.eq(sign, 1), ag.sub(1.0, cosine), 0.0)
    over = ag.clamp(ag.sub(cosine, float(margin)), min=0)
    return reduce(ag.add(near, ag.where(ag.eq(sign, -1), over, 0.0)), reduction)


def records() -> Sequence[ag.Operator]:
    """The losses of this module."""
    return [
        ag.composite(soft_margin_loss, ("input", "target")),
        ag.composite(hinge_embedding_loss, ("input", "target")),
        ag.composite(cosine_embedding_loss, ("input1", "input2", "target")),
    ]
