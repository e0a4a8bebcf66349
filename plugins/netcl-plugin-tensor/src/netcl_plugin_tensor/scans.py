"""The places of extremes: argmax, argmin (`extremes_gpu` has their form for GPUs)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Kernel, Kernels, Spec, widened
from netcl_core.autograd import Implementation, Operator, Request
from netcl_core.errors import ShapeError, message
from netcl_plugin_tensor.axes import axis, ndim_of, reduced
from netcl_plugin_tensor.extremes_gpu import is_divided, plan_extremes, shape_along

TEMPLATE: Final = "tensor/first_extreme.cl.j2"


def _plan(request: Request) -> Kernels:
    (x,), entry = request.inputs, request.operator
    outer, size, inner = shape = shape_along(x, request.attrs["dim"])
    if is_divided(request, size):
        return plan_extremes(request, shape, entry == "argmax", values=False)
    args = (("in", 0), ("out", 0), ("ulong", size), ("ulong", inner))
    context = {"storage": DTYPES[x.dtype].storage, "acc": DTYPES[x.dtype].compute}
    return Kernels((Kernel(TEMPLATE, entry, args, (outer * inner,), None, context),))


def _bind_arg(name: str) -> Callable[..., Any]:
    def bind(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        place = None if dim is None else axis(name, dim, ndim_of(x))
        return (x,), {"dim": place, "keepdim": bool(keepdim)}

    return bind


def _infer_arg(name: str) -> Callable[..., Spec]:
    def infer(x: Spec, dim: int | None, keepdim: bool) -> Spec:
        over = range(x.ndim) if dim is None else [dim]
        out = Spec(reduced(x.shape, list(over), keepdim), "int64")
        if out.size and not x.size:
            raise ShapeError(message(name, f"no elements in {x.shape}", "at least one"))
        return out

    return infer


def _arg(name: str, numpy: Callable[..., Any]) -> Operator:
    def reference(x: Any, dim: int | None, keepdim: bool) -> Any:
        if not x.ndim:
            return np.zeros((), np.int64)
        return numpy(widened(x), axis=dim, keepdims=keepdim)

    return Operator(
        name=name,
        bind=_bind_arg(name),
        infer=_infer_arg(name),
        reference=reference,
        implementations=(Implementation(name, "line per item", _plan),),
        doc=f"{name}(x, dim=None, keepdim=False): the index of the first {name[3:]}imum along an "
        "axis, or of the flattened tensor; NaN counts as the extreme.\n\n"
        f">>> ag.{name}([2.0, 3.0, 1.0]).item()\n{numpy([2.0, 3.0, 1.0])}",
    )


OPERATORS = (_arg("argmax", np.argmax), _arg("argmin", np.argmin))
