"""class_mean: the losses of rows by the weights of their classes, both added up in one kernel.

And the weights alone, for who divides by their sum before there are losses.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from netcl_plugin_tensor.reducing import SUM, reduction_kernels, row_teams, tree_sum

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_plugin_losses.classes import (
    ANY_CLASS,
    INDICES,
    check_dtypes,
    check_weight,
    counts,
    divided,
    picked,
)

TEMPLATE: Final = "losses/class_mean.cl.j2"
NAME: Final = "class_mean"
#: The rows that one item of a CPU adds up, or one team of a GPU.
_SLICE: Final = 8192
#: The targets that one item or team adds up if there are no losses, and the team's items at most.
_TARGETS: Final = {"cpu": 32768, "gpu": 4096}
_TEAM: Final = 1024
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
    flags: dict[str, Any] = {"index": INDICES[target.dtype]}
    if weight is not None:
        flags["weights"] = DTYPES[weight.dtype].storage
    slices = -(-losses.size // _SLICE)
    if slices < 2:
        whole = _kernel(device, losses, out_dtype, 1, (*given, *results), numbers, **flags)
        return Kernels((whole,))
    sums: Any = ("scratch", 0)
    first = _kernel(
        device, losses, DTYPES[out_dtype].wide, slices, (*given, sums), numbers, **flags
    )
    parts = Spec((slices,), DTYPES[out_dtype].wide)
    last = _kernel(device, parts, out_dtype, 1, (sums, *results))
    return Kernels((first, last), (2 * slices * DTYPES[parts.dtype].itemsize,))


def total_kernels(
    device: Device, target: Spec, weight: Spec | None, dtype: str, ignore_index: int
) -> Kernels:
    """The launches from target and weight (inputs 1 and 2) to the sum of the weights of classes.

    Without weights they count the targets that are not ignored.
    """
    given: list[Any] = [("in", i) for i in range(1, 2 if weight is None else 3)]
    numbers = [("ulong", ANY_CLASS if weight is None else weight.size), ("long", ignore_index)]
    flags: dict[str, Any] = {"index": INDICES[target.dtype], "valued": False}
    if weight is not None:
        flags["weights"] = DTYPES[weight.dtype].storage
    source = Spec(target.shape, dtype)
    slices = -(-target.size // _TARGETS["gpu" if device.kind == "gpu" else "cpu"])
    if slices < 2:
        return Kernels((_kernel(device, source, dtype, 1, (*given, ("out", 0)), numbers, **flags),))
    sums: Any = ("scratch", 0)
    first = _kernel(device, source, dtype, slices, (*given, sums), numbers, **flags)
    parts = Spec((slices,), dtype)
    kernels = Kernels((first,), (slices * DTYPES[dtype].itemsize,))
    return kernels.then(reduction_kernels(SUM, device, parts, (0,), dtype), {("in", 0): sums})


def _team(device: Device, rows: int, dtype: str, valued: bool) -> int:
    """How many items add up so many rows."""
    if device.kind != "gpu":
        return 1
    if valued:
        return row_teams(device, rows, DTYPES[dtype]).team
    most = min(_TEAM, device.max_work_group_size)
    return min(1 << (most.bit_length() - 1), 1 << max(0, rows - 1).bit_length())


def _kernel(
    device: Device,
    source: Spec,
    out_dtype: str,
    slices: int,
    buffers: Sequence[Any],
    numbers: Sequence[Any] = (),
    index: str = "",
    weights: str = "",
    valued: bool = True,
) -> Kernel:
    """The launch over losses with their targets, or (without an `index`) over sums of slices.

    `index` and `weights` are the types in memory of targets and weights. If it is not `valued`,
    there are targets alone.
    """
    rows = -(-source.size // slices)
    team = _team(device, rows, DTYPES[out_dtype].wide, valued)
    context = {
        "storage": DTYPES[source.dtype].storage if valued else "",
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
    entry = NAME if valued else "class_total"
    entry = f"{entry}_slices" if slices > 1 else entry
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
    return Spec((), losses.dtype), Spec((), DTYPES[losses.dtype].wide)


def _plan(request: Request) -> Kernels:
    losses, target, *weights = request.inputs
    weight = weights[0] if weights else None
    attrs, dtype = request.attrs, request.output.dtype
    return mean_kernels(request.device, losses, target, weight, dtype, **attrs)


def _reference(losses: Any, target: Any, weight: Any, ignore_index: int) -> Any:
    flat = widened(losses).reshape(-1)
    if weight is None:
        counted = picked(target, ignore_index, ANY_CLASS)[1]
        total = flat.dtype.type(np.count_nonzero(counted))
    else:
        total = tree_sum(counts(target, weight, ignore_index), (0,), flat.dtype)
    return tree_sum(flat, (0,), flat.dtype) / total, total


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
    if isinstance(ignore_index, bool):  # where PyTorch once had `size_average`
        remedy = "Write reduction='sum' for size_average=False, else leave it away"
        given = f"ignore_index={ignore_index}"
        raise ArgumentError(message("ignore_index", given, "a class index", remedy))
    if reduction == "none":
        return losses
    if reduction == "sum":
        return ag.sum(losses)
    return CLASS_MEAN(losses, target, weight, ignore_index).mean
