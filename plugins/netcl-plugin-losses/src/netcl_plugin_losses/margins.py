"""Losses of distances and orders: margins that are to be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_plugin_losses.arguments import checked, floating, non_negative, reduce


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """max(0, -target * (input1 - input2) + margin): whether one input ranks above the other.

    >>> ag.margin_ranking_loss(nc.tensor([1.0]), nc.tensor([3.0]), nc.tensor([1.0])).item()
    2.0

    Args:
        input1: Scores, floating.
        input2: Others; all three broadcast.
        target: 1 where `input1` should be larger, -1 where `input2` should.
        margin: By how much.
        reduction: `'mean'` over all elements, `'sum'` or `'none'`.
    """
    checked("margin_ranking_loss", reduction)
    first, second, sign = ag.as_operands(input1, input2, target)
    floating("margin_ranking_loss", "input1", first)
    apart = ag.mul(ag.neg(sign), ag.sub(first, second))
    return reduce(ag.clamp(ag.add(apart, float(margin)), min=0), reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin), with d = `pairwise_distance`.

    >>> anchor, same, other = nc.zeros(1, 2), nc.zeros(1, 2), nc.full((1, 2), 0.1)
    >>> round(ag.triplet_margin_loss(anchor, same, other).item(), 3)
    0.859

    Args:
        anchor: Vectors (..., features), floating.
        positive: Those that should be near; all three broadcast.
        negative: Those that should be far.
        margin: By how much farther, at least 0.
        p: The norm of the distance.
        eps: What is added to each difference.
        swap: Whether the distance of `positive` to `negative` counts where it is smaller.
        reduction: `'mean'` over all vectors, `'sum'` or `'none'`.

    (Balntas, Riba, Ponsa, Mikolajczyk 2016, doi:10.5244/C.30.119)
    """
    checked("triplet_margin_loss", reduction)
    margin = non_negative("triplet_margin_loss", "margin", margin)
    near, far, other = ag.as_operands(anchor, positive, negative)
    floating("triplet_margin_loss", "anchor", near)
    apart = ag.pairwise_distance(near, other, p, eps)
    if swap:
        apart = ag.minimum(apart, ag.pairwise_distance(far, other, p, eps))
    gap = ag.sub(ag.pairwise_distance(near, far, p, eps), apart)
    return reduce(ag.clamp(ag.add(gap, margin), min=0), reduction)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of your own: max(0, d(a, p) - d(a, n) + margin).

    >>> def apart(a, b):
    ...     return ag.sum(ag.abs(a - b), -1)
    >>> x, near, far = nc.zeros(1, 2), nc.tensor([[0.5, 0.0]]), nc.tensor([[0.0, 1.0]])
    >>> ag.triplet_margin_with_distance_loss(x, near, far, distance_function=apart).item()
    0.5

    Args:
        anchor, positive, negative: As of `triplet_margin_loss`, of any shapes that the function
            takes, with equally many dimensions.
        distance_function: Of two tensors, a distance for each pair; default: `pairwise_distance`.
        margin: By how much farther, at least 0.
        swap: Whether the distance of `positive` to `negative` counts where it is smaller.
        reduction: `'mean'` over all distances, `'sum'` or `'none'`.

    Raises:
        ArgumentError: Unless given a function of two tensors.
        ShapeError: Unless given as many of each.
    """
    who = "triplet_margin_with_distance_loss"
    checked(who, reduction)
    margin = non_negative(who, "margin", margin)
    distance = ag.pairwise_distance if distance_function is None else distance_function
    if not callable(distance):
        given = f"a {type(distance).__name__} as distance_function"
        raise ArgumentError(message(who, given, "a function of two tensors"))
    near, far, other = ag.as_operands(anchor, positive, negative)
    floating(who, "anchor", near)
    if not near.ndim == far.ndim == other.ndim:
        given = f"{near.ndim}, {far.ndim} and {other.ndim} dimensions"
        raise ShapeError(message(who, given, "as many of each"))
    apart = distance(near, other)
    if swap:
        apart = ag.minimum(apart, distance(far, other))
    gap = ag.sub(distance(near, far), apart)
    return reduce(ag.clamp(ag.add(gap, margin), min=0), reduction)


def records() -> Sequence[ag.Operator]:
    """The losses of this module."""
    return [
        ag.composite(margin_ranking_loss, ("input1", "input2", "target")),
        ag.composite(triplet_margin_loss, ("anchor", "positive", "negative")),
        ag.composite(triplet_margin_with_distance_loss),
    ]
