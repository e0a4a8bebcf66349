"""layer_norm and cross_entropy with an item of work per row, and with gradients of their own.

What a gradient reads of each row is kept beside the result: mean and 1 / deviation, or the
logarithm of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved

TEMPLATE = "rowwise/rowwise.cl.j2"
LABEL = "row per item"
FLOATS = tuple(name for name, dtype in DTYPES.items() if dtype.floating)


def launch(
    request: Request, entry: str, outputs: int, rows: int, *numbers: Any, **more: Any
) -> Any:
    """A launch with an item per row; the kernel's arguments are inputs, outputs and numbers."""
    dtype = DTYPES[request.inputs[0].dtype]
    buffers = [("in", i) for i in range(len(request.inputs))]
    buffers += [("out", i) for i in range(outputs)]
    context = {"storage": dtype.storage, "acc": dtype.compute, "keep": request.keep, **more}
    return Kernel(TEMPLATE, entry, (*buffers, *numbers), (rows,), None, context)


# -- layer_norm --------------------------------------------------------------------------


def dims(attrs: Any) -> int:
    """How many axes a row has."""
    given = attrs["normalized_shape"]
    return len(given) if isinstance(given, tuple) else 1


def rows_of(x: Spec, attrs: Any) -> tuple[int, int]:
    """The number of rows, and their length."""
    cut = x.ndim - dims(attrs)
    return math.prod(x.shape[:cut]), math.prod(x.shape[cut:])


def norm_misfit(request: Request) -> str | None:
    """Only with weight and bias of x's dtype."""
    if request.given != (True, True, True):
        return "it wants a weight and a bias"
    x, *affine = request.inputs
    wanted = Spec(x.shape[x.ndim - dims(request.attrs) :], x.dtype)
    return None if affine == [wanted, wanted] else f"weight or bias is not {wanted}"


def plan_norm(request: Request) -> Kernels:
    """One launch."""
    rows, size = rows_of(request.inputs[0], request.attrs)
    compute = DTYPES[request.inputs[0].dtype].compute
    numbers = (("ulong", size), (compute, request.attrs["eps"]))
    return Kernels((launch(request, "rowwise_norm", 3 if request.keep else 1, rows, *numbers),))


def norm_residuals(request: Request) -> tuple[Spec, ...]:
    """The mean of each row, and one by its deviation."""
    x = request.inputs[0]
    each = Spec((rows_of(x, request.attrs)[0],), DTYPES[x.dtype].wide)
    return each, each


def norm_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The gradient of x by a kernel, those of weight and bias as sums over the rows."""
    x, weight, _ = saved.inputs
    mean, scale = saved.residuals
    size = weight.size
    dx = NORM_BACKWARD(x, weight, mean, scale, grad) if saved.needs[0] else None
    flat, given = ag.reshape(x, (-1, size)), ag.reshape(grad, (-1, size))
    dw = db = None
    if saved.needs[1]:
        centered = ag.sub(flat, ag.reshape(mean.astype(x.dtype), (-1, 1)))
        standard = ag.mul(centered, ag.reshape(scale.astype(x.dtype), (-1, 1)))
        dw = ag.reshape(ag.sum(ag.mul(given, standard), 0), weight.shape)
    if saved.needs[2]:
        db = ag.reshape(ag.sum(given, 0), weight.shape)
    return [dx, dw, db]


def norm_gradient(x: Any, weight: Any, mean: Any, scale: Any, grad: Any) -> Any:
    """The gradient of x in NumPy."""
    size = weight.size
    column = scale[:, None]
    standard = (x.reshape(-1, size) - mean[:, None]) * column
    g = grad.reshape(-1, size) * weight.reshape(-1)
    along = standard * (g * standard).mean(1, keepdims=True)
    return (column * (g - g.mean(1, keepdims=True) - along)).reshape(x.shape)


def plan_norm_backward(request: Request) -> Kernels:
    """One launch."""
    rows, size = request.inputs[2].size, request.inputs[1].size
    return Kernels((launch(request, "rowwise_norm_backward", 1, rows, ("ulong", size)),))


NORM_BACKWARD = Operator(
    "rowwise_norm_backward",
    bind=lambda *operands: (operands, {}),
    infer=lambda x, *rest: x,
    reference=norm_gradient,
    implementations=(Implementation("rowwise_norm_backward", LABEL, plan_norm_backward),),
)

# -- cross_entropy -----------------------------------------------------------------------


def entropy_misfit(request: Request) -> str | None:
    """Only rows of logits with class indices, and one number as the result."""
    x, target = request.inputs[:2]
    if request.given != (True, True, False) or request.attrs["label_smoothing"]:
        return "it knows neither weights nor smoothing"
    if x.ndim != 2 or not x.shape[1] or target.dtype not in ("int32", "int64"):
        return "it wants logits (N, C) and class indices"
    return "it gives one number" if request.attrs["reduction"] == "none" else None


def plan_entropy(request: Request) -> Kernels:
    """The loss of each row, then their sum or mean."""
    x, target = request.inputs
    rows, mean = x.shape[0], request.attrs["reduction"] == "mean"
    ignored = ("long", request.attrs["ignore_index"])
    index = {"index": DTYPES[target.dtype].storage, "mean": mean}
    each = launch(request, "rowwise_entropy", 0, rows, ("ulong", x.shape[1]), ignored, **index)
    loss, lse = ("scratch", 0), ("out", 1) if request.keep else ("scratch", 1)
    each = Kernel(TEMPLATE, each.entry, (("in", 0), ("in", 1), loss, lse, *each.args[2:]), (rows,),
                  None, each.context)  # fmt: skip
    counted = ("out", 2) if request.keep else ("scratch", 2)
    args = (("in", 1), loss, ("out", 0), counted, ("ulong", rows), ignored)
    total = Kernel(TEMPLATE, "rowwise_entropy_total", args, (1,), None, each.context)
    nbytes = DTYPES[DTYPES[x.dtype].wide].itemsize
    return Kernels((each, total), (rows * nbytes, rows * nbytes, nbytes))


def entropy_residuals(request: Request) -> tuple[Spec, ...]:
    """The logarithm of each row's sum, and by what the losses were divided."""
    x = request.inputs[0]
    return Spec(x.shape[:1], DTYPES[x.dtype].wide), Spec((1,), DTYPES[x.dtype].wide)


def entropy_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The gradient of the logits."""
    x, target, _ = saved.inputs
    lse, count = saved.residuals
    return [ENTROPY_BACKWARD(x, target, lse, count, grad, saved.attrs["ignore_index"]), None, None]


def entropy_gradient(x: Any, target: Any, lse: Any, count: Any, grad: Any, ignore: int) -> Any:
    """The gradient of the logits in NumPy."""
    share = np.exp(x - lse[:, None])
    share[np.arange(len(x)), np.where(target == ignore, 0, target)] -= 1
    return share * (target != ignore)[:, None] * grad / count


def plan_entropy_backward(request: Request) -> Kernels:
    """One launch."""
    x, target = request.inputs[:2]
    numbers = (("ulong", x.shape[1]), ("long", request.attrs["ignore"]))
    index = DTYPES[target.dtype].storage
    entry = "rowwise_entropy_backward"
    return Kernels((launch(request, entry, 1, x.shape[0], *numbers, index=index),))


ENTROPY_BACKWARD = Operator(
    "rowwise_entropy_backward",
    bind=lambda x, target, lse, count, grad, ignore: (
        (x, target, lse, count, grad),
        {"ignore": ignore},
    ),
    infer=lambda x, *rest, ignore: x,
    reference=entropy_gradient,
    implementations=(Implementation("rowwise_entropy_backward", LABEL, plan_entropy_backward),),
)

IMPLEMENTATIONS = (
    Implementation(
        "layer_norm",
        LABEL,
        plan_norm,
        Requirements(dtypes=FLOATS, reject=norm_misfit),
        priority=5,
        backward=norm_backward,
        residuals=norm_residuals,
        parts=(NORM_BACKWARD,),
    ),
    Implementation(
        "cross_entropy",
        LABEL,
        plan_entropy,
        Requirements(dtypes=FLOATS, reject=entropy_misfit),
        priority=5,
        backward=entropy_backward,
        residuals=entropy_residuals,
        parts=(ENTROPY_BACKWARD,),
    ),
)
