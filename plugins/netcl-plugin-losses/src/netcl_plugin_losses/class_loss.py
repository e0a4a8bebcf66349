"""A loss of class indices as one implementation: the kernel of its rows, then their sum or mean.

The gradient is one kernel as well, which divides by what the mean was divided by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from netcl_core import DTYPES, Kernels, Spec, Tensor
from netcl_core.autograd import (
    SUM,
    Implementation,
    Request,
    Requirements,
    Saved,
    reduction_kernels,
)
from netcl_plugin_losses.arguments import FLOATING
from netcl_plugin_losses.class_mean import mean_kernels
from netcl_plugin_losses.classes import INDICES, WIDE

Plan = Callable[[Request], Kernels]
#: The gradient of the input from saved operands, the gradient of the loss and the mean's total.
Gradient = Callable[[Saved, Tensor, Any], Any]


def class_loss(name: str, rows: Plan, gradient: Gradient, **slots: Any) -> Implementation:
    """The implementation of an op `(input, target, weight, ..., reduction)`.

    Args:
        rows: What plans the losses of rows, in any floating dtype.
        gradient: What computes the gradient, with ops.
        slots: What is said of the rows' prologue, as in `Implementation`.
    """

    def plan(request: Request) -> Kernels:
        return _plan(request, rows)

    def backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
        total = saved.residuals[0] if saved.residuals else None
        return [gradient(saved, grad, total) if saved.needs[0] else None, None, None]

    return Implementation(
        name,
        "rows and their mean",
        plan,
        Requirements(dtypes=FLOATING, reject=_reject),
        backward=backward,
        residuals=_residuals,
        **slots,
    )


def _reject(request: Request) -> str | None:
    """What the op's function is for."""
    x, target, *weights = request.inputs
    if target.dtype not in INDICES:
        return f"target is {target.dtype}, no class indices"
    if weights and weights[0].dtype != x.dtype:
        return f"weight is {weights[0].dtype}, not {x.dtype}"
    return None if target.size else "there are no rows"


def _residuals(request: Request) -> tuple[Spec, ...]:
    """By what a mean was divided."""
    averaged = request.attrs["reduction"] == "mean"
    return (Spec((), WIDE[request.output.dtype]),) if averaged else ()


def _plan(request: Request, rows: Plan) -> Kernels:
    reduction, out = request.attrs["reduction"], request.output
    if reduction == "none":
        return rows(request)
    _, target, *weights = request.inputs
    losses, kept = Spec(target.shape, WIDE[out.dtype]), ("scratch", 0)
    itemsize = DTYPES[losses.dtype].itemsize
    planned = rows(replace(request, outputs=(losses,)))
    found = Kernels((), (losses.size * itemsize, itemsize)).then(planned, {("out", 0): kept})
    if reduction == "sum":
        reduced = reduction_kernels(SUM, request.device, losses, range(losses.ndim), out.dtype)
        return found.then(reduced, {("in", 0): kept})
    weight, ignored = weights[0] if weights else None, request.attrs["ignore_index"]
    reduced = mean_kernels(request.device, losses, target, weight, out.dtype, ignored)
    total = ("out", 1) if request.keep else ("scratch", 1)
    return found.then(reduced, {("in", 0): kept, ("out", 1): total})
