"""nll_loss of log-probabilities, and the weights of rows by their classes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import DtypeError, message
from netcl_plugin_losses.arguments import checked
from netcl_plugin_losses.class_loss import class_loss
from netcl_plugin_losses.class_mean import CLASS_MEAN, reduce_rows
from netcl_plugin_losses.classes import (
    ANY_CLASS,
    INDICES,
    as_rows,
    check_gradient,
    check_indices,
    check_specs,
    check_weight,
    class_axis,
    counts,
    from_rows,
    gathered,
    picked,
    rows_shape,
    slopes,
)

TEMPLATE: Final = "losses/class_rows.cl.j2"
#: So many elements are one item's work on CPUs; of single ones, which lie anywhere, so many.
_RUN: Final = 8192
_SINGLE: Final = 512


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """The negative log-likelihood `-weight[y] * input[y]` of the true classes y.

    >>> ag.nll_loss(nc.tensor([[-0.5, -1.0], [-2.0, -0.25]]), nc.tensor([0, 1])).item()
    0.375

    Args:
        input: Log-probabilities of shape (C,), (N, C) or (N, C, d1, ...), floating.
        target: Class indices of shape (), (N,) or (N, d1, ...), integer.
        weight: A weight per class, shape (C,); it gets no gradient.
        ignore_index: Targets of this value have loss 0 and no gradient.
        reduction: `'mean'` over the targets that count, weighted with their classes'
            weights, `'sum'` or `'none'`.

    Raises:
        ShapeError, DtypeError: operands that do not fit each other.
        AttributeValueError: a class index out of range.
    """
    checked("nll_loss", reduction)
    input, target, weight = ag.as_operands(input, target, weight)
    weight = None if weight is None else weight.detach().astype(input.dtype)
    rows = NLL_ROWS(input, target, weight, ignore_index)
    return reduce_rows(rows, target, weight, ignore_index, reduction)


def _bind(input: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    return (input, target, weight), {"ignore_index": operator.index(ignore_index)}


def _bind_backward(
    target: Any, grad: Any, weight: Any, total: Any, ignore_index: int, shape: tuple[int, ...]
) -> Any:
    attrs = {"ignore_index": operator.index(ignore_index), "shape": tuple(shape)}
    return (target, grad, weight, total), attrs


def _bind_weights(target: Any, weight: Any, ignore_index: int, dtype: str) -> Any:
    return (target, weight), {"ignore_index": operator.index(ignore_index), "dtype": dtype}


def _infer(x: Spec, target: Spec, weight: Spec | None, ignore_index: int) -> Spec:
    check_specs("nll_loss", x, target, weight)
    return Spec(rows_shape(x.shape), x.dtype)


def _infer_backward(
    target: Spec,
    grad: Spec,
    weight: Spec | None,
    total: Spec | None,
    ignore_index: int,
    shape: tuple[int, ...],
) -> Spec:
    x = Spec(tuple(shape), grad.dtype)
    check_specs("nll_rows_backward", x, target, weight)
    check_gradient("nll_rows_backward", grad, total, x)
    return x


def _infer_weights(target: Spec, weight: Spec | None, ignore_index: int, dtype: str) -> Spec:
    if target.dtype not in INDICES:
        given = f"target of dtype {target.dtype}"
        raise DtypeError(message("class_weight_rows", given, "integer class indices"))
    if weight is not None:
        shape = (weight.size,)  # as many classes as there are weights
        check_weight("class_weight_rows", weight, shape, dtype)
    return Spec(target.shape, dtype)


def _kernels(
    request: Request,
    entry: str,
    order: Sequence[int],
    shape: Sequence[int],
    dtype: str,
    **flags: bool,
) -> Kernels:
    """An item per element of the output, on CPUs per run of them; of a gradient per run of rows.

    The inputs follow in some `order`, the target first; `shape` is that of the classes, `dtype`
    that of the floating inputs.
    """
    outer, classes, inner = class_axis(shape)
    cpu = request.device.kind == "cpu"
    slabs = cpu and entry == "nll_rows_backward"
    size = outer if slabs else request.output.size
    run = max(1, _RUN // (classes * inner)) if slabs else _SINGLE if cpu else 1
    context = {
        "storage": DTYPES[dtype].storage,
        "out_storage": DTYPES[request.output.dtype].storage,
        "acc": DTYPES[dtype].compute,
        "index": INDICES[request.inputs[order[0]].dtype],
        "values": False,
        "weighted": False,
        "shared": False,
        "averaged": False,
        "slabs": slabs,
        **flags,
    }
    numbers: list[tuple[str, Any]] = [
        ("ulong", classes),
        ("ulong", inner),
        ("ulong", size),
        ("ulong", run),
        ("long", request.attrs["ignore_index"]),
    ]
    args = (*(("in", i) for i in order), ("out", 0), *numbers)
    return Kernels((Kernel(TEMPLATE, entry, args, (-(-size // run),), None, context),))


def _plan_rows(request: Request) -> Kernels:
    """The loss of each row."""
    x, weighted = request.inputs[0], request.given[2]
    order = (1, 0, 2) if weighted else (1, 0)
    return _kernels(request, "nll_rows", order, x.shape, x.dtype, values=True, weighted=weighted)


def _plan_backward(request: Request) -> Kernels:
    target, grad = request.inputs[:2]
    return _kernels(
        request,
        "nll_rows_backward",
        range(len(request.inputs)),
        request.attrs["shape"],
        grad.dtype,
        values=True,
        weighted=request.given[2],
        shared=grad.shape != target.shape,
        averaged=request.given[3],
    )


def _plan_weights(request: Request) -> Kernels:
    """Without weights every index counts as one of a class."""
    weighted = request.given[1]
    shape = (1, request.inputs[1].size if weighted else ANY_CLASS)
    order = range(len(request.inputs))
    dtype = request.output.dtype
    return _kernels(request, "class_weight_rows", order, shape, dtype, weighted=weighted)


def _reference(x: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    rows = as_rows(x)
    index, counted = picked(target, ignore_index, rows.shape[1])
    losses = -rows[np.arange(len(index)), index] * (1 if weight is None else widened(weight)[index])
    return np.where(counted, losses, 0).reshape(target.shape)


def _reference_backward(
    target: Any, grad: Any, weight: Any, total: Any, ignore_index: int, shape: tuple[int, ...]
) -> Any:
    index, counted = picked(target, ignore_index, class_axis(shape)[1])
    rows = np.zeros((len(index), class_axis(shape)[1]), widened(grad).dtype)
    each = -slopes(grad, total) * (1 if weight is None else widened(weight)[index])
    rows[np.arange(len(index)), index] = np.where(counted, each, 0)
    return from_rows(rows, shape)


def _reference_weights(target: Any, weight: Any, ignore_index: int, dtype: str) -> Any:
    return counts(target, weight, ignore_index).reshape(target.shape)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, target, weight = saved.inputs
    ignore = saved.attrs["ignore_index"]
    return [NLL_ROWS_BACKWARD(target, grad, weight, None, ignore, x.shape), None, None]


def _rows_again(saved: Saved, grad: Tensor) -> Sequence[Any]:
    target, upstream, weight, total = saved.inputs
    rows = NLL_ROWS(grad, target, weight, saved.attrs["ignore_index"])
    return [None, gathered(rows, upstream, total), None, None]


def _implemented(name: str, plan: Callable[[Request], Kernels]) -> tuple[Implementation, ...]:
    return (Implementation(name, "by rows", plan),)


NLL_ROWS_BACKWARD: Final = Operator(
    name="nll_rows_backward",
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    backward=_rows_again,
    saves=(0, 2, 3),
    implementations=_implemented("nll_rows_backward", _plan_backward),
    doc="nll_rows_backward(target, grad, weight, total, ignore_index, shape): nll_rows' gradient "
    "from that of the rows, or from one for all; divided by `total`, if that is given.",
)
NLL_ROWS: Final = Operator(
    name="nll_rows",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(1, 2),
    check=check_indices("nll_loss"),
    implementations=_implemented("nll_rows", _plan_rows),
    parts=(NLL_ROWS_BACKWARD,),
    doc="nll_rows(input, target, weight, ignore_index): -weight[y] * input[y] of each row.",
)
CLASS_WEIGHT_ROWS: Final = Operator(
    name="class_weight_rows",
    bind=_bind_weights,
    infer=_infer_weights,
    reference=_reference_weights,
    implementations=_implemented("class_weight_rows", _plan_weights),
    doc="class_weight_rows(target, weight, ignore_index, dtype): the weight of each row's "
    "class, 1 without weights and 0 for an ignored row.",
)


def _gradient(saved: Saved, grad: Tensor, total: Any) -> Any:
    x, target, weight = saved.inputs
    return NLL_ROWS_BACKWARD(target, grad, weight, total, saved.attrs["ignore_index"], x.shape)


def records() -> Sequence[ag.Operator]:
    """The loss, with the kernels of its rows."""
    return [
        ag.composite(
            nll_loss,
            ("input", "target", "weight"),
            check=check_indices("nll_loss"),
            implementations=(class_loss("nll_loss", _plan_rows, _gradient),),
            parts=(NLL_ROWS, CLASS_MEAN),
        )
    ]
