"""class_mean: the losses of rows by the weights of their classes, both added up in one kernel."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, row_teams
from netcl_core.errors import ShapeError, message
from netcl_plugin_losses.classes import (
    ANY_CLASS,
    INDICES,
    WIDE,
    check_dtypes,
    check_weight,
    counts,
    divided,
    picked,
    wide,
)

TEMPLATE: Final = "losses/class_mean.cl.j2"
NAME: Final = "class_mean"
#: The rows that one item of a CPU adds up, or one team of a GPU.
_SLICE: Final = 8192
#: The width of the vectors of an item that is alone.
_WIDTH: Final = 16


def mean_kernels(
    device: Device,
    losses: Spec,
    target: Spec,
    weight: Spec | None,
    out_dtype: str,
    ignore_index: int,
) -> Kernels:
    """The launches from losses, target and weight (inputs 0 to 2) to the mean and the total.

    Many rows are cut into slices, whose sums a second launch adds up.
    """
    given: list[Any] = [("in", i) for i in range(2 if weight is None else 3)]
    results: list[Any] = [("out", 0), ("out", 1)]
    numbers = [("ulong", ANY_CLASS if weight is None else weight.size), ("long", ignore_index)]
    flags = {"index": INDICES[target.dtype]}
    if weight is not None:
        flags["weights"] = DTYPES[weight.dtype].storage
    slices = -(-losses.size // _SLICE)
    if slices < 2:
        whole = _kernel(device, losses, out_dtype, 1, (*given, *results), numbers, **flags)
        return Kernels((whole,))
    sums: Any = ("scratch", 0)
    first = _kernel(device, losses, WIDE[out_dtype], slices, (*given, sums), numbers, **flags)
    parts = Spec((slices,), WIDE[out_dtype])
    last = _kernel(device, parts, out_dtype, 1, (sums, *results))
    return Kernels((first, last), (2 * slices * DTYPES[parts.dtype].itemsize,))


def _kernel(
    device: Device,
    source: Spec,
    out_dtype: str,
    slices: int,
    buffers: Sequence[Any],
    numbers: Sequence[Any] = (),
    index: str = "",
    weights: str = "",
) -> Kernel:
    """The launch over losses with their targets, or (without an `index`) over sums of slices.

    `index` and `weights` are the types in memory of targets and weights.
    """
    rows = -(-source.size // slices)
    team = 1
    if device.kind == "gpu":
        team = row_teams(device, rows, DTYPES[WIDE[out_dtype]]).team
    context = {
        "storage": DTYPES[source.dtype].storage,
        "out_storage": DTYPES[out_dtype].storage,
        "acc": DTYPES[out_dtype].compute,
        "index": index,
        "weights": weights,
        "sliced": slices > 1,
        "width": _WIDTH,
        "team": team,
    }
    sizes = [("ulong", source.size), ("ulong", rows)]
    args = (*buffers, *sizes, *numbers)
    entry = f"{NAME}_slices" if slices > 1 else NAME
    return Kernel(TEMPLATE, entry, args, (slices * team,), (team,), context)


def _bind(losses: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    return (losses, target, weight), {"ignore_index": operator.index(ignore_index)}


def _infer(losses: Spec, target: Spec, weight: Spec | None, ignore_index: int) -> tuple[Spec, Spec]:
    check_dtypes(NAME, losses, target)
    if target.shape != losses.shape:
        given = f"losses {losses.shape} and target {target.shape}"
        raise ShapeError(message(NAME, given, "equal shapes"))
    if weight is not None:
        check_weight(NAME, weight, (weight.size,), losses.dtype)
    return Spec((), losses.dtype), Spec((), WIDE[losses.dtype])


def _plan(request: Request) -> Kernels:
    losses, target, *weights = request.inputs
    weight = weights[0] if weights else None
    attrs, dtype = request.attrs, request.output.dtype
    return mean_kernels(request.device, losses, target, weight, dtype, **attrs)


def _reference(losses: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    flat = wide(losses).reshape(-1)
    if weight is None:
        counted = picked(target, ignore_index, ANY_CLASS)[1]
        total = flat.dtype.type(np.count_nonzero(counted))
    else:
        total = ag.tree_sum(counts(target, weight, ignore_index), (0,), flat.dtype)
    return ag.tree_sum(flat, (0,), flat.dtype) / total, total


def _backward(saved: Saved, grad: Tensor | None, _: Tensor | None) -> Sequence[Any]:
    """That of the mean; the total depends on nothing that has a gradient."""
    if grad is None:
        return [None, None, None]
    losses, total = saved.inputs[0], saved.outputs[1]
    each = ag.reshape(divided(grad, total), (1,) * losses.ndim)
    return [ag.Spread(each, losses.shape), None, None]


CLASS_MEAN: Final = Operator(
    name=NAME,
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(),
    results=("mean", "total"),
    implementations=(Implementation(NAME, "sums in one pass", _plan),),
    doc="class_mean(losses, target, weight, ignore_index): the sum of the losses of rows by that "
    "of the weights of their classes (without weights, the rows that count), and the latter.",
)


def reduce_rows(losses: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """The losses of rows as they are, summed, or averaged.

    The mean is over the rows that are not ignored, weighted with the weights of their
    classes; it is NaN if there are none, as in PyTorch. Nothing waits for the device.
    """
    if reduction == "none":
        return losses
    if reduction == "sum":
        return ag.sum(losses)
    return CLASS_MEAN(losses, target, weight, ignore_index).mean
