"""cross_entropy with class indices: one kernel forward, one backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Composite, Implementation, Operator, Request, Saved
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_losses.reduce import checked

TEMPLATE: Final = "losses/cross_entropy.cl.j2"
_STORAGE: Final = {"float16": "half", "float32": "float", "float64": "double"}
_INDICES: Final = {"uint8": "uchar", "int32": "int", "int64": "long"}


def cross_entropy(
    input: Any, target: Any, *, reduction: str = "mean", ignore_index: int = -100
) -> Any:
    """The negative log-likelihood of the true class after a softmax over axis 1.

    Args:
        input: Logits of shape (C,), (N, C) or (N, C, d1, ...), floating.
        target: Class indices of shape (), (N,) or (N, d1, ...), integer.
        reduction: `'mean'` over the targets that count, `'sum'` or `'none'`.
        ignore_index: Targets of this value have loss 0 and no gradient.

    Raises:
        ShapeError, DtypeError: operands that do not fit each other.
        AttributeValueError: a class index out of range.
    """
    checked("cross_entropy", reduction)
    rows = ag.cross_entropy_rows(input, target, ignore_index)
    if reduction == "none":
        return rows
    total = ag.sum(rows)
    if reduction == "sum":
        return total
    count = _counted(target, ignore_index)
    return ag.mul(total, 1.0 / count if count else math.nan)


def _counted(target: Any, ignore_index: int) -> int:
    """How many targets are not ignored; asks the device only if some may be."""
    size = int(np.prod(np.shape(target)))
    if not size or not _may_hold(target, ignore_index):
        return size
    return size - int((np.asarray(target) == ignore_index).sum())


def _may_hold(target: Any, number: int) -> bool:
    if not hasattr(target, "value"):
        return True
    low, high = target.value.int_range()
    return bool(low <= number <= high)


def _check(inputs: Sequence[Any], attrs: Any) -> None:
    """Raise AttributeValueError if a class index is neither in range nor ignored."""
    logits, target = inputs[:2]
    if not target.size:
        return
    classes, ignore = _class_axis(logits.shape)[1], attrs["ignore_index"]
    low, high = target.int_range()
    if low >= 0 and high < classes:
        return
    values = target.to_host()
    wrong = values[(values != ignore) & ((values < 0) | (values >= classes))]
    if wrong.size:
        raise AttributeValueError(
            message(
                "cross_entropy",
                f"class index {int(wrong.flat[0])} in target",
                f"0 to {classes - 1}, or ignore_index={ignore}",
                "Check the labels, or the number of outputs of the last layer",
            )
        )


def _class_axis(shape: Sequence[int]) -> tuple[int, int, int]:
    """Outer size, classes and inner size of logits."""
    if len(shape) == 1:
        return 1, shape[0], 1
    return shape[0], shape[1], math.prod(shape[2:])


def _bind(input: Any, target: Any, ignore_index: int = -100) -> Any:
    return (input, target), {"ignore_index": int(ignore_index)}


def _infer(x: Spec, target: Spec, ignore_index: int) -> Spec:
    if x.dtype not in _STORAGE or target.dtype not in _INDICES:
        raise DtypeError(
            message(
                "cross_entropy",
                f"input {x.dtype} and target {target.dtype}",
                "floating logits and integer class indices",
            )
        )
    wanted = (x.shape[0], *x.shape[2:]) if x.ndim > 1 else ()
    if not x.ndim or target.shape != wanted:
        raise ShapeError(
            message("cross_entropy", f"input {x.shape} and target {target.shape}",
                    f"target of shape {wanted}")
        )  # fmt: skip
    return Spec(wanted, x.dtype)


def _infer_backward(x: Spec, target: Spec, grad: Spec, ignore_index: int) -> Spec:
    _infer(x, target, ignore_index)
    return x


def _plan(entry: str) -> Callable[[Request], Kernels]:
    def plan(request: Request) -> Kernels:
        logits, target = request.inputs[:2]
        outer, classes, inner = _class_axis(logits.shape)
        storage = _STORAGE[logits.dtype]
        context = {
            "storage": storage,
            "acc": "double" if storage == "double" else "float",
            "index": _INDICES[target.dtype],
            "width": 4 if request.device.kind == "gpu" else 16,
            "contiguous": inner == 1,
        }
        buffers = [("in", i) for i in range(len(request.inputs))] + [("out", 0)]
        numbers = [("ulong", classes), ("ulong", inner), ("long", request.attrs["ignore_index"])]
        kernel = Kernel(TEMPLATE, entry, (*buffers, *numbers), (outer * inner,), None, context)
        return Kernels((kernel,))

    return plan


def _rows(x: Any) -> Any:
    """Logits as (rows, classes) in a type that sums well."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    return wide.reshape(1, -1) if x.ndim == 1 else np.moveaxis(wide, 1, -1).reshape(-1, x.shape[1])


def _reference(x: Any, target: Any, ignore_index: int) -> Any:
    rows, index = _rows(x), target.reshape(-1).astype(np.int64)
    shifted = rows - rows.max(axis=1, keepdims=True)
    kept = index != ignore_index
    picked = shifted[np.arange(len(index)), np.where(kept, index, 0)]
    losses = np.log(np.exp(shifted).sum(axis=1)) - picked
    return np.where(kept, losses, 0).reshape(target.shape)


def _reference_backward(x: Any, target: Any, grad: Any, ignore_index: int) -> Any:
    rows, index = _rows(x), target.reshape(-1).astype(np.int64)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    part = e / e.sum(axis=1, keepdims=True)
    kept = index != ignore_index
    part[np.arange(len(index)), np.where(kept, index, 0)] -= 1
    part = np.where(kept[:, None], part * grad.reshape(-1, 1), 0)
    if x.ndim == 1:
        return part.reshape(x.shape)
    return np.moveaxis(part.reshape(*target.shape, x.shape[1]), -1, 1)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, target = saved.inputs
    return [ag.cross_entropy_rows_backward(x, target, grad, saved.attrs["ignore_index"]), None]


RECORDS = (
    Operator(
        name="cross_entropy_rows",
        bind=_bind,
        infer=_infer,
        reference=_reference,
        backward=_backward,
        check=_check,
        implementations=(
            Implementation("cross_entropy_rows", "row per item", _plan("cross_entropy_rows")),
        ),
        doc="cross_entropy_rows(input, target, ignore_index): the loss of each target.",
    ),
    Operator(
        name="cross_entropy_rows_backward",
        bind=lambda x, target, grad, ignore: ((x, target, grad), {"ignore_index": ignore}),
        infer=_infer_backward,
        reference=_reference_backward,
        implementations=(
            Implementation(
                "cross_entropy_rows_backward", "row per item", _plan("cross_entropy_rows_backward")
            ),
        ),
        doc="cross_entropy_rows_backward(input, target, grad, ignore_index): "
        "(softmax(input) - onehot(target)) * grad.",
    ),
    Composite("cross_entropy", cross_entropy, cross_entropy.__doc__ or ""),
)
