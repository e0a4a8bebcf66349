"""softmax and log_softmax along one axis, each with one forward and one backward kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from netcl_plugin_fusion.inline import inlined, with_functions

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, widened
from netcl_core.autograd import AutogradPrimitive, Implementation, Operator, Request, Saved, Slots
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis, ndim_of, shape_of
from netcl_plugin_tensor.reducing import group_items, row_teams, tree_sum
from netcl_plugin_tensor.reductions import converted
from netcl_plugin_tensor.row_blocks import CPU_WIDTH, rows_of_an_item

#: Lines whose elements stand apart, such long ones on GPUs, rows on GPUs, rows on CPUs.
TEMPLATE: Final = "tensor/softmax.cl.j2"
COLUMNS: Final = "tensor/softmax_columns.cl.j2"
TEAMS: Final = "tensor/softmax_rows.cl.j2"
BLOCKS: Final = "tensor/softmax_blocks.cl.j2"
#: Elements of a line that several items share; neighbouring lines that a group serves, at most and
#: at least (so many a GPU reads at once); and groups that keep a compute unit busy.
_LONG: Final = 32
_SIDE: Final = 32
_LEAST: Final = 8
_GROUPS: Final = 8


def _bind(name: str) -> Callable[..., Any]:
    def bind(x: Any, dim: int = -1, *, dtype: Any = None) -> Any:
        x = x if dtype is None else converted(x, nc.dtype_name(dtype, name))
        return (x,), {"dim": axis(name, dim, ndim_of(x))}

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


@cache
def _exponential() -> AutogradPrimitive:
    """exp, as it is spelt on each device."""
    return AutogradPrimitive("rising", lambda x, _: f"exp({x[0]})", None, arity=1)


def _slots(request: Request) -> Slots:
    """Those of the request, and the function that the templates call `rising`."""
    x = request.inputs[:1]
    rising = inlined("rising", request.device, x, [(_exponential(), ())], {}, value=0)
    return with_functions(request.slots, rising)


def _plan(entry: str) -> Callable[[Request], Kernels]:
    """Lines along the axis, in the form of the device's kind."""

    def plan(request: Request) -> Kernels:
        spec, dim = request.inputs[0], request.attrs["dim"]
        size = spec.shape[dim] if spec.shape else 1
        inner = math.prod(spec.shape[dim + 1 :])
        lines = SoftmaxLines(spec.size // (size * inner), size, inner)
        gpu = request.device.kind == "gpu"
        form = _teams if gpu else _blocks
        if inner > 1:
            form = _columns if gpu and size >= _LONG else _strided
        return Kernels((form(entry, request, lines),))

    return plan


class SoftmaxLines(NamedTuple):
    """`outer` times `inner` lines of `size` elements, which stand `inner` apart."""

    outer: int
    size: int
    inner: int


def _launch(
    template: str,
    entry: str,
    request: Request,
    numbers: Sequence[int],
    groups: tuple[int, int | None],
    context: dict[str, Any],
) -> Kernel:
    """A launch; `groups` are its items and how many a group has, `context` has their `width`."""
    slots, dtype = _slots(request), DTYPES[request.inputs[0].dtype]
    buffers = [*(("in", i) for i in range(len(request.inputs))), ("out", 0)]
    args = slots.args(buffers, [("ulong", number) for number in numbers])
    aligned = context.get("aligned", False)
    context |= {"storage": dtype.storage, "acc": dtype.compute}
    context |= slots.context(context["width"], aligned)
    items, local = groups
    return Kernel(template, entry, args, (items,), None if local is None else (local,), context)


def _strided(entry: str, request: Request, lines: SoftmaxLines) -> Kernel:
    width = 4 if request.device.kind == "gpu" else CPU_WIDTH
    items = lines.outer * -(-lines.inner // width)
    return _launch(TEMPLATE, entry, request, lines, (items, None), {"width": width})


def _columns(entry: str, request: Request, lines: SoftmaxLines) -> Kernel:
    """A group takes neighbouring lines: fewer of them, with larger teams, where lines are few."""
    device = request.device
    group = group_items(device, DTYPES[DTYPES[request.inputs[0].dtype].wide].itemsize)
    side = min(_SIDE, group, 1 << (lines.inner - 1).bit_length())
    while side > _LEAST and lines.outer * -(-lines.inner // side) < _GROUPS * device.compute_units:
        side //= 2
    items = lines.outer * -(-lines.inner // side) * group
    context = {"width": 1, "side": side, "members": group // side}
    return _launch(COLUMNS, entry, request, lines, (items, group), context)


def _teams(entry: str, request: Request, lines: SoftmaxLines) -> Kernel:
    teams = row_teams(request.device, lines.size, DTYPES[request.inputs[0].dtype])
    groups = teams.items(lines.outer), teams.group
    return _launch(TEAMS, entry, request, lines[:2], groups, dict(teams.context))


def _blocks(entry: str, request: Request, lines: SoftmaxLines) -> Kernel:
    turns = rows_of_an_item(request.device, lines.outer, lines.size)
    groups = -(-lines.outer // turns), 1
    return _launch(BLOCKS, entry, request, (*lines[:2], turns), groups, {"width": CPU_WIDTH})


def _stretch(request: Request) -> int:
    """Vectors stay within a contiguous line, or within the lines that lie side by side."""
    shape, dim = request.inputs[0].shape, request.attrs["dim"]
    inner = math.prod(shape[dim + 1 :])
    return inner if inner > 1 or not shape else shape[dim]


def _total(x: Any, dim: int) -> Any:
    return tree_sum(x, (dim,) if x.ndim else (), x.dtype, keepdims=True)


def _shifted(x: Any, dim: int) -> Any:
    axis = dim if x.ndim else None
    return widened(x) - widened(x).max(axis=axis, keepdims=True, initial=-np.inf)


def _softmax(x: Any, dim: int) -> Any:
    e = np.exp(_shifted(x, dim))
    return e / _total(e, dim)


def _log_softmax(x: Any, dim: int) -> Any:
    shifted = _shifted(x, dim)
    return shifted - np.log(_total(np.exp(shifted), dim))


def _softmax_backward(out: Any, grad: Any, dim: int) -> Any:
    out, grad = widened(out), widened(grad)
    return out * (grad - _total(grad * out, dim))


def _log_softmax_backward(out: Any, grad: Any, dim: int) -> Any:
    out, grad = widened(out), widened(grad)
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
        (
            "softmax(x, dim=-1): exp(x - max) / sum(exp(x - max)) along an axis, of a floating "
            "dtype."
            "\n\n"
            ">>> ag.softmax([[0.0, 0.0]], dim=1).tolist()\n"
            "[[0.5, 0.5]]"
        ),
    ),
    _operator(
        "log_softmax",
        _log_softmax,
        _log_softmax_backward,
        _log_softmax_second,
        (
            "log_softmax(x, dim=-1): x - max - log(sum(exp(x - max))) along an axis, of a floating "
            "dtype."
            "\n\n"
            ">>> ag.log_softmax([[0.0, 0.0]], dim=1).numpy().round(4)\n"
            "array([[-0.6931, -0.6931]], dtype=float32)"
        ),
    ),
)
