"""softmax and log_softmax along one axis, each with one forward and one backward kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Operator, Request, Saved, row_teams
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, shape_of

TEMPLATE: Final = "tensor/softmax.cl.j2"
ROWS: Final = "tensor/softmax_rows.cl.j2"


def _bind(name: str) -> Callable[..., Any]:
    def bind(x: Any, dim: int = -1) -> Any:
        return (x,), {"dim": axis(name, dim, len(shape_of(x)))}

    return bind


def _bind_backward(name: str) -> Callable[..., Any]:
    def bind(out: Any, grad: Any, dim: int) -> Any:
        return (out, grad), {"dim": axis(name, dim, len(shape_of(out)))}

    return bind


def _infer(name: str) -> Callable[..., Spec]:
    def infer(x: Spec, dim: int) -> Spec:
        if not DTYPES[x.dtype].floating:
            raise DtypeError(
                message(name, f"a {x.dtype} tensor", "a floating dtype", "Use astype('float32')")
            )
        return x

    return infer


def _infer_backward(name: str) -> Callable[..., Spec]:
    def infer(out: Spec, grad: Spec, dim: int) -> Spec:
        if out != grad:
            raise ShapeError(message(name, f"{out} and {grad}", "equal shapes and dtypes"))
        return grad

    return infer


def _plan(entry: str) -> Callable[[Request], Kernels]:
    """Lines along the axis, in the form of the device's kind."""

    def plan(request: Request) -> Kernels:
        spec, dim = request.inputs[0], request.attrs["dim"]
        size = spec.shape[dim] if spec.shape else 1
        inner = math.prod(spec.shape[dim + 1 :])
        outer = spec.size // (size * inner)
        buffers = [("in", i) for i in range(len(request.inputs))] + [("out", 0)]
        dtype = DTYPES[spec.dtype]
        context: dict[str, Any] = {"storage": dtype.storage, "acc": dtype.compute}
        if request.device.kind == "gpu" and inner == 1:
            teams = row_teams(request.device, size, dtype)
            args = request.slots.args(buffers, (("ulong", outer), ("ulong", size)))
            items, local = teams.items(outer), (teams.group,)
            context |= teams.context | request.slots.context(teams.width, aligned=True)
            return Kernels((Kernel(ROWS, entry, args, (items,), local, context),))
        width = 4 if request.device.kind == "gpu" else 16
        numbers = (("ulong", outer), ("ulong", size), ("ulong", inner))
        args = request.slots.args(buffers, numbers)
        items = outer if inner == 1 else outer * -(-inner // width)
        context |= {"width": width, "contiguous": inner == 1, **request.slots.context(width)}
        return Kernels((Kernel(TEMPLATE, entry, args, (items,), None, context),))

    return plan


def _stretch(request: Request) -> int:
    """Vectors stay within a contiguous line, or within the lines that lie side by side."""
    shape, dim = request.inputs[0].shape, request.attrs["dim"]
    inner = math.prod(shape[dim + 1 :])
    return inner if inner > 1 or not shape else shape[dim]


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _total(x: Any, dim: int) -> Any:
    return ag.tree_sum(x, (dim,) if x.ndim else (), x.dtype, keepdims=True)


def _shifted(x: Any, dim: int) -> Any:
    axis = dim if x.ndim else None
    return _wide(x) - _wide(x).max(axis=axis, keepdims=True, initial=-np.inf)


def _softmax(x: Any, dim: int) -> Any:
    e = np.exp(_shifted(x, dim))
    return e / _total(e, dim)


def _log_softmax(x: Any, dim: int) -> Any:
    shifted = _shifted(x, dim)
    return shifted - np.log(_total(np.exp(shifted), dim))


def _softmax_backward(out: Any, grad: Any, dim: int) -> Any:
    out, grad = _wide(out), _wide(grad)
    return out * (grad - _total(grad * out, dim))


def _log_softmax_backward(out: Any, grad: Any, dim: int) -> Any:
    out, grad = _wide(out), _wide(grad)
    return grad - np.exp(out) * _total(grad, dim)


def _sum(x: Any, dim: int) -> Any:
    return ag.sum(x, (dim,) if x.ndim else (), True)


def _softmax_second(saved: Saved, grad: Any) -> Sequence[Any]:
    """Of `out * (upstream - sum(out * upstream))`."""
    (out, upstream), dim = saved.inputs, saved.attrs["dim"]
    along = _sum(ag.mul(grad, out), dim)
    centered = ag.sub(upstream, _sum(ag.mul(upstream, out), dim))
    of_out = ag.sub(ag.mul(grad, centered), ag.mul(upstream, along))
    return [of_out, ag.mul(out, ag.sub(grad, along))]


def _log_softmax_second(saved: Saved, grad: Any) -> Sequence[Any]:
    """Of `upstream - exp(out) * sum(upstream)`."""
    (out, upstream), dim = saved.inputs, saved.attrs["dim"]
    weighted = ag.mul(grad, ag.exp(out))
    of_out = ag.neg(ag.mul(weighted, _sum(upstream, dim)))
    return [of_out, ag.sub(grad, _sum(weighted, dim))]


def _operator(
    name: str,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    second: Callable[..., Any],
    doc: str,
) -> Operator:
    back = f"{name}_backward"
    gradient = Operator(
        name=back,
        bind=_bind_backward(back),
        infer=_infer_backward(back),
        reference=backward,
        backward=second,
        implementations=(Implementation(back, "lines", _plan(back)),),
        doc=f"{back}(out, grad, dim): the gradient of {name} from its output.",
    )
    return Operator(
        name=name,
        bind=_bind(name),
        infer=_infer(name),
        reference=forward,
        backward=lambda saved, grad: [gradient(saved.output, grad, saved.attrs["dim"])],
        saves=(),
        implementations=(
            Implementation(
                name,
                "lines",
                _plan(name),
                prologue=True,
                epilogue=True,
                rereads=True,
                stretch=_stretch,
            ),
        ),
        parts=(gradient,),
        doc=doc,
    )


OPERATORS = (
    _operator(
        "softmax",
        _softmax,
        _softmax_backward,
        _softmax_second,
        "softmax(x, dim=-1): exp(x - max) / sum(exp(x - max)) along an axis.",
    ),
    _operator(
        "log_softmax",
        _log_softmax,
        _log_softmax_backward,
        _log_softmax_second,
        "log_softmax(x, dim=-1): x - max - log(sum(exp(x - max))) along an axis.",
    ),
)
