"""A loss of class indices as one implementation: the kernel of its rows, then their sum or mean.

The gradient is one kernel as well, which divides by what the mean was divided by; or the forward
writes it in one pass, and the backward multiplies it by the upstream gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from netcl_plugin_tensor.reducing import SUM, reduction_kernels

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Request, Requirements, Saved
from netcl_plugin_losses.arguments import FLOATING
from netcl_plugin_losses.class_mean import mean_kernels
from netcl_plugin_losses.classes import INDICES

Plan = Callable[[Request], Kernels]
#: The gradient of the input from saved operands, the gradient of the loss and the mean's total.
Gradient = Callable[[Saved, Tensor, Any], Any]


def class_loss(
    name: str, rows: Plan, gradient: Gradient, one_pass: Plan | None = None, **slots: Any
) -> Implementation:
    """The implementation of an op `(input, target, weight, ..., reduction)`.

    Args:
        rows: What plans the losses of rows, in any floating dtype.
        gradient: What computes the gradient, with ops.
        one_pass: What plans the reduced loss with its gradient, if somebody will ask for that.
        slots: What is said of the rows' prologue, as in `Implementation`.
    """

    def passes_once(dtype: str, reduction: str) -> bool:
        """Whether the forward writes the gradient, which has to be one number's.

        Not in half precision: divided by the number of rows it would vanish before it meets
        the scale of the loss.
        """
        full = DTYPES[dtype].wide == dtype
        return one_pass is not None and reduction != "none" and full

    def plan(request: Request) -> Kernels:
        once = passes_once(request.inputs[0].dtype, request.attrs["reduction"])
        if once and request.keep:
            assert one_pass is not None  # it passes once
            return one_pass(request)
        return _plan(request, rows)

    def residuals(request: Request) -> tuple[Spec, ...]:
        once = passes_once(request.inputs[0].dtype, request.attrs["reduction"])
        return request.inputs[:1] if once else _total(request)

    def saves(request: Request, needs: Sequence[bool]) -> Sequence[int]:
        once = passes_once(request.inputs[0].dtype, request.attrs["reduction"])
        return () if once else range(len(needs))

    def backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
        kept = saved.residuals[0] if saved.residuals else None
        if kept is not None and passes_once(saved.inputs[0].dtype, saved.attrs["reduction"]):
            return [kept if ag.is_one(grad) else ag.mul(kept, grad), None, None]
        return [gradient(saved, grad, kept) if saved.needs[0] else None, None, None]

    return Implementation(
        name,
        "rows and their mean",
        plan,
        Requirements(dtypes=FLOATING, reject=_reject),
        backward=backward,
        residuals=residuals,
        saves=saves,
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


def _total(request: Request) -> tuple[Spec, ...]:
    """By what a mean was divided."""
    averaged = request.attrs["reduction"] == "mean"
    return (Spec((), DTYPES[request.output.dtype].wide),) if averaged else ()


def _plan(request: Request, rows: Plan) -> Kernels:
    reduction, out = request.attrs["reduction"], request.output
    if reduction == "none":
        return rows(request)
    _, target, *weights = request.inputs
    losses, kept = Spec(target.shape, DTYPES[out.dtype].wide), ("scratch", 0)
    itemsize = DTYPES[losses.dtype].itemsize
    planned = rows(replace(request, outputs=(losses,)))
    kernels = Kernels((), (losses.size * itemsize, itemsize)).then(planned, {("out", 0): kept})
    if reduction == "sum":
        reduced = reduction_kernels(SUM, request.device, losses, range(losses.ndim), out.dtype)
        return kernels.then(reduced, {("in", 0): kept})
    weight, ignored = weights[0] if weights else None, request.attrs["ignore_index"]
    reduced = mean_kernels(request.device, losses, target, weight, out.dtype, ignored)
    total = ("out", 1) if request.keep else ("scratch", 1)
    return kernels.then(reduced, {("in", 0): kept, ("out", 1): total})
