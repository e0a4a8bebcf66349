"""cross_entropy of logits with class indices or with class probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_patterns import Captured, MatchedOp, TrainingPattern

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import Saved
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_losses.arguments import FLOATING, checked, floating, reduce
from netcl_plugin_losses.class_loss import class_loss
from netcl_plugin_losses.class_mean import CLASS_MEAN, reduce_rows
from netcl_plugin_losses.classes import check_indices, class_axis
from netcl_plugin_losses.row_kernels import plan_one_pass, plan_rows
from netcl_plugin_losses.rows import CROSS_ENTROPY_ROWS, CROSS_ENTROPY_ROWS_BACKWARD, stretch

WHO = "cross_entropy"


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """The negative log-likelihood of the true class after a softmax over axis 1.

    `-sum_c weight[c] * t[c] * log_softmax(input)[c]` of target probabilities t; a class
    index y stands for t[y] = 1.

    >>> logits = nc.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    >>> round(ag.cross_entropy(logits, nc.tensor([0, 2])).item(), 4)
    0.2395

    Args:
        input: Logits of shape (C,), (N, C) or (N, C, d1, ...), floating.
        target: Class indices of shape (), (N,) or (N, d1, ...), integer; or probabilities
            of the input's shape, floating.
        weight: A weight per class, shape (C,); it gets no gradient.
        ignore_index: Class indices of this value have loss 0 and no gradient.
        reduction: `'mean'`, `'sum'` or `'none'`. The mean is over the class indices that
            are not ignored, weighted with their classes' weights; over the rows with
            probabilities.
        label_smoothing: The share of the target that is spread evenly over all classes,
            in [0, 1] (Szegedy et al. 2016, arXiv:1512.00567).

    Raises:
        ShapeError, DtypeError: operands that do not fit each other.
        AttributeValueError: a class index or the smoothing out of range.
    """
    checked(WHO, reduction)
    if not 0 <= label_smoothing <= 1:
        given = f"label_smoothing={label_smoothing!r}"
        raise AttributeValueError(message(WHO, given, "0 to 1"))
    input, target, weight = ag.as_operands(input, target, weight)
    floating(WHO, "input", input)
    weight = None if weight is None else weight.detach().astype(input.dtype)
    if target.dtype in FLOATING and target.shape == input.shape and input.ndim:
        rows = _probability_rows(input, target, weight, ignore_index, label_smoothing)
        return reduce(rows, reduction)
    rows = CROSS_ENTROPY_ROWS(input, target, weight, ignore_index, label_smoothing)
    return reduce_rows(rows, target, weight, ignore_index, reduction)


def _probability_rows(
    input: Any, target: Any, weight: Any, ignore_index: int, smoothing: float
) -> Any:
    """The loss of each row of probabilities."""
    if ignore_index >= 0:
        given = f"ignore_index={ignore_index} with class probabilities"
        raise AttributeValueError(message(WHO, given, "class indices, or no ignore_index"))
    dim, classes = min(1, input.ndim - 1), class_axis(input.shape)[1]
    if smoothing:
        target = ag.add(ag.mul(target, 1 - smoothing), smoothing / classes)
    if weight is not None:
        if weight.shape != (classes,):
            given = f"weight of shape {weight.shape}"
            raise ShapeError(message(WHO, given, f"({classes},), one number per class"))
        shape = (classes, *(1,) * (input.ndim - dim - 1))
        target = ag.mul(target, ag.reshape(weight, shape))
    return ag.neg(ag.sum(ag.mul(ag.log_softmax(input, dim), target), dim))


def _gradient(saved: Saved, grad: Tensor, total: Any) -> Any:
    x, target, weight = saved.inputs
    numbers = (saved.attrs["ignore_index"], saved.attrs["label_smoothing"])
    return CROSS_ENTROPY_ROWS_BACKWARD(x, target, grad, weight, total, *numbers)


def records() -> Sequence[ag.Operator]:
    """The loss, with the kernels of its rows."""
    slots = {"prologue": True, "rereads": True, "stretch": stretch}
    return [
        ag.composite(
            cross_entropy,
            ("input", "target", "weight"),
            check=check_class_indices,
            implementations=(class_loss(WHO, plan_rows, _gradient, plan_one_pass, **slots),),
            parts=(CROSS_ENTROPY_ROWS, CLASS_MEAN),
        )
    ]


def check_class_indices(operands: Sequence[Any], attrs: Any) -> None:
    """Raise AttributeValueError if a class index is out of range."""
    if operands[1].dtype not in FLOATING:
        check_indices(WHO)(operands, attrs)


def patterns() -> Sequence[TrainingPattern]:
    """nll_loss of log_softmax along the classes, which is cross_entropy."""
    logs = MatchedOp("log_softmax", ("input",), (("dim", Captured("dim")),))
    attrs = (("ignore_index", Captured("ignore_index")), ("reduction", Captured("reduction")))
    named = {"cross_entropy_written_out": (), "weighted_cross_entropy_written_out": ("weight",)}
    return [
        TrainingPattern(
            name,
            MatchedOp("nll_loss", (logs, "target", *weight), attrs),
            _planned,
            dtypes=FLOATING,
            doc="nll_loss(log_softmax(input), target) by cross_entropy.",
        )
        for name, weight in named.items()
    ]


def _planned(
    input: Any, target: Any, dim: int, ignore_index: int, reduction: str, weight: Any = None
) -> Any:
    if dim != min(1, input.ndim - 1):
        return None
    return ag.cross_entropy(input, target, weight, ignore_index, reduction)
