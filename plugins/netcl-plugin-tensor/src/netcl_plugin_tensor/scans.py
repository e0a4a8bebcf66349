"""Along one axis, in order: argmax, argmin, cumsum (`scans_gpu` has its form for GPUs)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message
from netcl_plugin_tensor import scans_gpu
from netcl_plugin_tensor.axes import axis, ndim_of, reduced
from netcl_plugin_tensor.extremes_gpu import is_divided, plan_extremes, shape_along
from netcl_plugin_tensor.reductions import converted, widest

TEMPLATE: Final = "tensor/scan.cl.j2"


def _plan(entry: str) -> Callable[[Request], Kernels]:
    def plan(request: Request) -> Kernels:
        (x,), dim = request.inputs, request.attrs["dim"]
        outer, size, inner = shape_along(x, dim)
        lines = outer * inner
        if entry.startswith("arg") and is_divided(request, size):
            return plan_extremes(request, (outer, size, inner), entry == "argmax", values=False)
        given, out = DTYPES[x.dtype], DTYPES[request.output.dtype]
        exact = out.floating and request.device.supports_fp64
        widest = "double" if exact else out.compute
        context = {
            "storage": given.storage,
            "out_storage": out.storage,
            "out_compute": out.compute,
            "acc": given.compute if entry.startswith("arg") else widest,
            "reverse": bool(request.attrs.get("reverse")),
            "compensated": widest == "float",
        }
        if entry == "cumsum" and scans_gpu.is_divided(request, lines, size, inner):
            return scans_gpu.cumsum(request, lines, size, inner, context)
        args = (("in", 0), ("out", 0), ("ulong", size), ("ulong", inner))
        return Kernels((Kernel(TEMPLATE, entry, args, (lines,), None, context),))

    return plan


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
        implementations=(Implementation(name, "line per item", _plan(name)),),
        doc=f"{name}(x, dim=None, keepdim=False): the index of the first {name[3:]}imum along an "
        "axis, or of the flattened tensor; NaN counts as the extreme.\n\n"
        f">>> ag.{name}([2.0, 3.0, 1.0]).item()\n{numpy([2.0, 3.0, 1.0])}",
    )


def _bind_cumsum(x: Any, dim: int, reverse: bool = False, *, dtype: Any = None) -> Any:
    x = x if dtype is None else converted(x, widest("cumsum", dtype))
    return (x,), {"dim": axis("cumsum", dim, ndim_of(x)), "reverse": reverse}


def _infer_cumsum(x: Spec, dim: int, reverse: bool) -> Spec:
    return x if DTYPES[x.dtype].floating else Spec(x.shape, "int64")


def _reference_cumsum(x: Any, dim: int, reverse: bool) -> Any:
    wide = widened(x)
    wide = wide if wide.dtype.kind == "f" else wide.astype(np.int64)
    if not x.ndim:
        return wide
    ordered = np.flip(wide, dim) if reverse else wide
    exact = np.float64 if wide.dtype == np.float32 else wide.dtype
    total = np.cumsum(ordered, dim, dtype=exact).astype(wide.dtype, copy=False)
    return np.flip(total, dim) if reverse else total


def _cumsum_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [ag.cumsum(grad, saved.attrs["dim"], not saved.attrs["reverse"])]


OPERATORS = (
    _arg("argmax", np.argmax),
    _arg("argmin", np.argmin),
    Operator(
        name="cumsum",
        bind=_bind_cumsum,
        infer=_infer_cumsum,
        reference=_reference_cumsum,
        backward=_cumsum_backward,
        saves=(),
        implementations=(Implementation("cumsum", "line per item", _plan("cumsum")),),
        doc=(
            "cumsum(x, dim, reverse=False, dtype=None): running sums along an axis, of x in "
            "`dtype` if one is given; else integers in int64."
            "\n\n"
            ">>> ag.cumsum([1.0, 2.0, 3.0], dim=0).tolist()\n"
            "[1.0, 3.0, 6.0]"
        ),
    ),
)
