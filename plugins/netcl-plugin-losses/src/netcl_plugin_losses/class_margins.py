"""Losses of margins between classes: of one right class, of several, and of labels one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_tensor.selecting import GATHER

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_losses.arguments import alike, checked, floating, reduce, weighted


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """sum(max(0, margin - x[y] + x[i])^p) / C over the classes i other than y, the right one.

    >>> ag.multi_margin_loss(nc.tensor([[0.5, 1.0, 0.0]]), nc.tensor([0])).item()
    0.6666666865348816

    Args:
        input: Scores (N, C) or (C,), floating.
        target: The right class of each, int64 (N,) or ().
        p: 1 or 2.
        margin: By how much the right class is to be ahead.
        weight: A factor for each class, (C,).
        reduction: `'mean'` over all samples, `'sum'` or `'none'`.

    Raises AttributeValueError for a class that is not there.
    """
    who = "multi_margin_loss"
    checked(who, reduction)
    if p not in (1, 2):
        raise AttributeValueError(message(who, f"p={p!r}", "1 or 2"))
    x, right, scale = ag.as_operands(input, target, weight)
    scores, names = _rows(who, x, right, several=False)
    classes = scores.shape[1]
    if scale is not None and scale.shape != (classes,):
        raise ShapeError(message(who, f"weight of shape {scale.shape}", f"({classes},)"))
    place = ag.unsqueeze(names, 1)
    short = ag.clamp(ag.add(ag.sub(scores, ag.gather(scores, 1, place)), float(margin)), min=0)
    others = ag.ne(ag.arange(classes, device=x.device), place)
    each = ag.where(others, short if p == 1 else ag.square(short), 0.0)
    loss = ag.div(ag.sum(each, 1), float(classes))
    if scale is not None:
        loss = ag.mul(loss, ag.index_select(scale, 0, names))
    return reduce(ag.reshape(loss, right.shape), reduction)


def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """sum(max(0, 1 - (x[y] - x[i]))) / C over the right classes y and the others i.

    >>> x, y = nc.tensor([0.1, 0.2, 0.4, 0.8]), nc.tensor([3, 0, -1, 1])
    >>> round(ag.multilabel_margin_loss(x, y).item(), 4)
    0.85

    Args:
        input: Scores (N, C) or (C,), floating.
        target: The right classes of each, int64 of the input's shape; they end before the first
            -1, or any negative one.
        reduction: `'mean'` over all samples, `'sum'` or `'none'`.
    """
    who = "multilabel_margin_loss"
    checked(who, reduction)
    x, right = ag.as_operands(input, target)
    scores, names = _rows(who, x, right, several=True)
    classes = scores.shape[1]
    ag.check_data(_check_classes, (right.value,), classes)
    with ag.no_grad():
        ends = ag.cumsum(ag.lt(names, 0).astype("int64"), 1)
        valid = ag.eq(ends, 0)
        named = ag.where(valid, names, 0)
        same = ag.eq(ag.unsqueeze(named, 2), ag.arange(classes, device=x.device))
        hits = ag.sum(ag.logical_and(same, ag.unsqueeze(valid, 2)), 1, True)
        wrong = ag.eq(hits, 0)
        pairs = ag.logical_and(ag.unsqueeze(valid, 2), wrong)  # (N, right, other)
    apart = ag.sub(ag.unsqueeze(scores, 1), ag.unsqueeze(GATHER(scores, 1, named), 2))
    short = ag.where(pairs, ag.clamp(ag.add(apart, 1.0), min=0), 0.0)
    loss = ag.div(ag.sum(short, (1, 2)), float(classes))
    return reduce(ag.reshape(loss, x.shape[:-1]), reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over classes of the binary cross entropy of logits.

    >>> ag.multilabel_soft_margin_loss(nc.zeros(1, 3), nc.tensor([[1.0, 0.0, 1.0]])).item()
    0.6931471824645996

    Args:
        input: Logits (..., C), floating.
        target: 1 for a right class and 0 for the others, of the input's shape.
        weight: A factor for each class, (C,), or anything that broadcasts.
        reduction: `'mean'` over all samples, `'sum'` or `'none'`.

    Raises:
        ShapeError: Unless given (..., C).
    """
    who = "multilabel_soft_margin_loss"
    checked(who, reduction)
    x, right = alike(who, input=input, target=target)
    if not x.ndim:
        raise ShapeError(message(who, "an input without dimensions", "(..., C)"))
    hit = ag.mul(right, ag.logsigmoid(x))
    miss = ag.mul(ag.sub(1.0, right), ag.logsigmoid(ag.neg(x)))
    return reduce(ag.mean(weighted(ag.neg(ag.add(hit, miss)), weight), -1), reduction)


def _rows(who: str, x: Tensor, right: Tensor, *, several: bool) -> tuple[Any, Any]:
    """Scores (N, C) with a class (N,), or `several` (N, C); raises for what does not fit."""
    floating(who, "input", x)
    if x.ndim > 2 or 0 in x.shape[-1:]:
        raise ShapeError(message(who, f"input of shape {x.shape}", "(N, C) or (C,)"))
    if right.dtype != "int64":
        raise DtypeError(message(who, f"target of dtype {right.dtype}", "int64"))
    shape = x.shape if several else x.shape[:-1]
    if right.shape != shape and not (right.size == 1 and right.ndim < 2 and not shape):
        raise ShapeError(message(who, f"target of shape {right.shape}", f"{shape}"))
    scores = x if x.ndim == 2 else ag.reshape(x, (1, -1))
    return scores, ag.reshape(right, scores.shape if several else scores.shape[:1])


def _check_classes(given: Sequence[Any], classes: Any) -> None:
    """Raise AttributeValueError for a class that is not there; negative ones end a list."""
    high = given[0].int_range()[1] if given[0].size else -1
    if high >= classes:
        expected = f"below {classes}"
        raise AttributeValueError(message("multilabel_margin_loss", f"the class {high}", expected))


def records() -> Sequence[ag.Operator]:
    """The losses of this module."""
    return [
        ag.composite(multi_margin_loss, ("input", "target", "weight")),
        ag.composite(multilabel_margin_loss, ("input", "target")),
        ag.composite(multilabel_soft_margin_loss, ("input", "target", "weight")),
    ]
