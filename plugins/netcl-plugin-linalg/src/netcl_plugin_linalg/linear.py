"""linear: x W^T + b, with the bias added and its gradient summed in the products' kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor, widened
from netcl_core.autograd import Operator, Request, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_linalg.gemm import NoLinesError, Product, on_cpus, places_of
from netcl_plugin_linalg.gemm_gpu import on_gpus


def _bind(x: Any, weight: Any, bias: Any = None) -> Any:
    return (x, weight, bias), {}


def _infer(x: Spec, weight: Spec, bias: Spec | None) -> Spec:
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            message(
                "linear",
                f"x of shape {x.shape} and weight of shape {weight.shape}",
                "x (..., in) and weight (out, in)",
            )
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(message("linear", f"bias of shape {bias.shape}", f"{weight.shape[:1]}"))
    dtypes = {spec.dtype for spec in (x, weight, bias) if spec is not None}
    if len(dtypes) > 1:
        raise DtypeError(
            message("linear", " and ".join(sorted(dtypes)), "one dtype", "Convert with astype")
        )
    return Spec((*x.shape[:-1], weight.shape[0]), x.dtype)


def product_of(request: Request) -> Product:
    out, inner = request.inputs[1].shape
    rows = math.prod(request.inputs[0].shape[:-1])
    x, weight = places_of(request, 0).reshaped((rows, inner)), places_of(request, 1)
    if x is None:
        raise NoLinesError
    (row, step), (column, step_of_weight) = x.strides, weight.strides
    starts = x.offset, weight.offset
    return Product(rows, out, inner, row, step, step_of_weight, column, (), *starts)


def _reference(x: Any, weight: Any, bias: Any) -> Any:
    out = np.matmul(widened(x), widened(weight).T)
    return out if bias is None else out + widened(bias)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, weight, bias = saved.inputs
    gradients: list[Any] = [None, None, None]
    if saved.needs[0]:
        gradients[0] = ag.matmul(grad, weight)
    summed = bias is not None and saved.needs[2]
    if saved.needs[1]:
        rows = ag.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
        flat = ag.reshape(grad, (rows.shape[0], weight.shape[0]))
        if summed and grad.ndim > 1:
            return [gradients[0], *PARAMETER_GRADIENTS(flat, rows)]
        gradients[1] = ag.matmul(flat, rows, True)
    if summed:
        gradients[2] = ag.sum(grad, tuple(range(grad.ndim - 1))) if grad.ndim > 1 else grad
    return gradients


def _parameter_gradients(grad: Any, x: Any) -> Any:
    """G^T x, and the sum of the rows of G."""
    return ag.matmul(grad, x, True), ag.sum(grad, 0)


def _infer_gradients(grad: Spec, x: Spec) -> tuple[Spec, Spec]:
    out, inner = grad.shape[1], x.shape[1]
    return Spec((out, inner), x.dtype), Spec((out,), x.dtype)


def product_of_gradients(request: Request) -> Product:
    grad, x = places_of(request, 0), places_of(request, 1)
    (rows, out), inner = grad.shape, x.shape[1]
    (row, step), (row_of_x, step_of_x) = grad.strides, x.strides
    starts = grad.offset, x.offset
    return Product(out, inner, rows, step, row, row_of_x, step_of_x, (), *starts)


#: The gradients of weight and bias, which read the upstream gradient in one kernel.
PARAMETER_GRADIENTS: Final = ag.composite(
    _parameter_gradients,
    ("grad", "x"),
    name="linear_parameter_gradients",
    infer=_infer_gradients,
    results=("weight", "bias"),
    implementations=(
        on_cpus(
            "linear_parameter_gradients", "register tiles", product_of_gradients, row_sums=True
        ),
        on_gpus("linear_parameter_gradients", product_of_gradients, row_sums=True),
    ),
)

LINEAR: Final = Operator(
    name="linear",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(0, 1),
    saves_results=(),
    implementations=(
        on_cpus("linear", "packed register tiles", product_of),
        on_gpus("linear", product_of),
    ),
    parts=(PARAMETER_GRADIENTS,),
    doc=(
        "linear(x, weight, bias=None): x (..., in) times weight (out, in), plus bias (out,)."
        "\n\nAll have one dtype, a floating one or integers."
        "\n\n"
        ">>> ag.linear(nc.rand(32, 64), nc.rand(10, 64), nc.zeros(10)).shape\n"
        "(32, 10)"
    ),
)

OPERATORS: Final = (LINEAR,)
