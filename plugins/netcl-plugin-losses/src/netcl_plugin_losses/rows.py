"""cross_entropy_rows: the cross entropy of each row with its class index, one kernel each way."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_plugin_losses.classes import (
    as_rows,
    check_gradient,
    check_indices,
    check_specs,
    divided,
    from_rows,
    gathered,
    picked,
    rows_shape,
    slopes,
)
from netcl_plugin_losses.nll import CLASS_WEIGHT_ROWS
from netcl_plugin_losses.row_kernels import plan_backward, plan_rows

FORWARD: Final = "cross_entropy_rows"
BACKWARD: Final = "cross_entropy_rows_backward"


def _bind(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    ignored, smoothing = operator.index(ignore_index), float(label_smoothing)
    return (input, target, weight), {"ignore_index": ignored, "label_smoothing": smoothing}


def _bind_backward(
    input: Any,
    target: Any,
    grad: Any,
    weight: Any,
    total: Any,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    (_, _, _), attrs = _bind(input, target, weight, ignore_index, label_smoothing)
    return (input, target, grad, weight, total), attrs


def _infer(
    x: Spec, target: Spec, weight: Spec | None, ignore_index: int, label_smoothing: float
) -> Spec:
    check_specs("cross_entropy", x, target, weight)
    return Spec(rows_shape(x.shape), x.dtype)


def _infer_backward(
    x: Spec, target: Spec, grad: Spec, weight: Spec | None, total: Spec | None, **attrs: Any
) -> Spec:
    _infer(x, target, weight, **attrs)
    check_gradient(BACKWARD, grad, total, x)
    return x


def stretch(request: Request) -> int:
    """Vectors stay within a row; where the classes are apart there are none."""
    return request.inputs[0].shape[-1]


def _shares(
    rows: Any, target: Any, weight: Any, ignore_index: int, smoothing: float
) -> tuple[Any, Any]:
    """In NumPy: how much each class of each row counts, and which rows do."""
    index, counted = picked(target, ignore_index, rows.shape[1])
    shares = np.full(rows.shape, smoothing / rows.shape[1], rows.dtype)
    shares[np.arange(len(index)), index] += 1 - smoothing
    if weight is not None:
        shares = np.where(shares != 0, shares * widened(weight), shares)  # 0 of infinity is nothing
    return shares, counted


def _reference(x: Any, target: Any, weight: Any, ignore_index: int, label_smoothing: float) -> Any:
    rows = as_rows(x)
    shares, counted = _shares(rows, target, weight, ignore_index, label_smoothing)
    shifted = rows - rows.max(axis=1, keepdims=True)
    logs = np.log(np.exp(shifted).sum(axis=1, keepdims=True)) - shifted
    losses = np.where(shares != 0, shares * logs, 0).sum(axis=1)
    return np.where(counted, losses, 0).reshape(target.shape)


def _reference_backward(
    x: Any,
    target: Any,
    grad: Any,
    weight: Any,
    total: Any,
    ignore_index: int,
    label_smoothing: float,
) -> Any:
    rows = as_rows(x)
    shares, counted = _shares(rows, target, weight, ignore_index, label_smoothing)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    part = e / e.sum(axis=1, keepdims=True) * shares.sum(axis=1, keepdims=True) - shares
    part = np.where(counted[:, None], part * slopes(grad, total)[:, None], 0)
    return from_rows(part, x.shape)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, target, weight = saved.inputs
    attrs = saved.attrs.values()
    return [CROSS_ENTROPY_ROWS_BACKWARD(x, target, grad, weight, None, *attrs), None, None]


def _second(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """Of `upstream / total * (shares' sum * softmax(x) - shares)`, row by row."""
    x, target, upstream, weight, total = saved.inputs
    attrs, dim = saved.attrs, min(1, saved.inputs[0].ndim - 1)
    gradients: list[Any] = [None] * 5
    if saved.needs[0]:
        part = ag.softmax(x, dim)
        centered = ag.sub(grad, ag.sum(ag.mul(part, grad), dim, True))
        sums = _sums_of_shares(target, weight, upstream.dtype, **attrs)
        factor = ag.mul(divided(upstream, total), sums)
        gradients[0] = ag.mul(ag.mul(part, centered), ag.unsqueeze(factor, dim))
    if saved.needs[2]:
        one = Tensor.ones((), upstream.dtype, upstream.device)
        each = CROSS_ENTROPY_ROWS_BACKWARD(x, target, one, weight, None, *attrs.values())
        gradients[2] = gathered(ag.sum(ag.mul(grad, each), dim), upstream, total)
    return gradients


def _sums_of_shares(
    target: Any, weight: Any, dtype: str, ignore_index: int, label_smoothing: float
) -> Any:
    """How much all classes of each row count together."""
    own = CLASS_WEIGHT_ROWS(target, weight, ignore_index, dtype)
    if weight is None or not label_smoothing:
        return own
    counted = CLASS_WEIGHT_ROWS(target, None, ignore_index, dtype)
    even = ag.mul(counted, ag.mul(ag.mean(weight), label_smoothing))
    return ag.add(ag.mul(own, 1 - label_smoothing), even)


CROSS_ENTROPY_ROWS_BACKWARD: Final = Operator(
    name=BACKWARD,
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    backward=_second,
    implementations=(Implementation(BACKWARD, "by rows", plan_backward),),
    doc="cross_entropy_rows_backward(input, target, grad, weight, total, ignore_index, "
    "label_smoothing): the gradient of the input from that of the rows, or from one for all; "
    "divided by `total`, if that is given.",
)
CROSS_ENTROPY_ROWS: Final = Operator(
    name=FORWARD,
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    check=check_indices("cross_entropy"),
    implementations=(
        Implementation(
            FORWARD,
            "by rows",
            plan_rows,
            prologue=True,
            rereads=True,
            stretch=stretch,
        ),
    ),
    parts=(CROSS_ENTROPY_ROWS_BACKWARD, CLASS_WEIGHT_ROWS),
    doc="cross_entropy_rows(input, target, weight=None, ignore_index=-100, "
    "label_smoothing=0.0): the loss of each target.",
)
