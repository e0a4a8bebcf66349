"""norm_rows: contiguous rows standardised by one kernel each way, in the form that suits GPUs.

layer_norm, rms_norm and group_norm use it there; elsewhere they are made of other ops.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import (
    NO_SLOTS,
    SUM,
    Implementation,
    Operator,
    Request,
    RowTeams,
    Saved,
    Slots,
    reduction_kernels,
    row_teams,
)
from netcl_core.errors import DtypeError, ShapeError, message

TEMPLATE: Final = "tensor/norm_rows.cl.j2"
FORWARD: Final = "norm_rows"
BACKWARD: Final = "norm_rows_backward"
#: Work-groups per compute unit whose teams add up gradients over several rows: few, since every
#: team leaves a row of sums behind.
_SUMMING_GROUPS: Final = 8
_SUMS: Final = ("weight", "bias")


def _bind(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    dims: int = 1,
    eps: float = 1e-5,
    centered: bool = True,
) -> Any:
    return (x, weight, bias), _attrs(dims, eps, centered)


def _bind_backward(x: Any, grad: Any, weight: Any, dims: int, eps: float, centered: bool) -> Any:
    return (x, grad, weight), _attrs(dims, eps, centered)


def _attrs(dims: int, eps: float, centered: bool) -> dict[str, Any]:
    return {"dims": operator.index(dims), "eps": float(eps), "centered": bool(centered)}


def _infer(x: Spec, weight: Spec | None, bias: Spec | None, dims: int, **attrs: Any) -> Spec:
    _check(FORWARD, x, weight, bias, dims)
    return x


def _check(who: str, x: Spec, weight: Spec | None, bias: Spec | None, dims: int) -> None:
    """Raise if the operands do not fit each other, in the name of the op."""
    if not DTYPES[x.dtype].floating:
        raise DtypeError(
            message(who, f"a {x.dtype} tensor", "a floating dtype", "Use astype('float32')")
        )
    if not 1 <= dims <= x.ndim:
        raise ShapeError(message(who, f"dims={dims} of {x.shape}", "1 or more, as x has"))
    wanted = Spec(x.shape[-dims:], x.dtype)
    if bias is not None and weight is None:
        raise ShapeError(message(who, "a bias without a weight", "both", "Add the bias after"))
    for name, given in (("weight", weight), ("bias", bias)):
        if given not in (None, wanted):
            raise ShapeError(message(who, f"{name} {given}", f"{wanted}"))


def _infer_backward(x: Spec, grad: Spec, weight: Spec | None, dims: int, **attrs: Any) -> Spec:
    _check(BACKWARD, x, weight, None, dims)
    if grad != x:
        raise ShapeError(message(BACKWARD, f"{x} and {grad}", "equal shapes and dtypes"))
    return x


def _rows(x: Spec, dims: int) -> tuple[int, int]:
    """The number of rows, and the length of each."""
    return math.prod(x.shape[:-dims]), math.prod(x.shape[-dims:])


def _kernel(
    entry: str,
    x: Spec,
    buffers: Sequence[Any],
    teams: RowTeams,
    attrs: Any,
    flags: dict[str, Any],
    turns: int = 1,
    slots: Slots = NO_SLOTS,
) -> Kernel:
    """The launch; `flags` say whether there are weight and bias, and what is summed up."""
    dtype = DTYPES[x.dtype]
    rows, size = _rows(x, attrs["dims"])
    numbers = [("ulong", rows), ("ulong", size), ("ulong", turns), (dtype.compute, attrs["eps"])]
    context = {
        "storage": dtype.storage,
        "acc": dtype.compute,
        "centered": attrs["centered"],
        "weighted": False,
        "biased": False,
        "sums": (),
        **flags,
        **teams.context,
        **slots.context(teams.width, aligned=True),
    }
    items = teams.items(-(-rows // turns))
    args = slots.args(buffers, numbers)
    return Kernel(TEMPLATE, entry, args, (items,), (teams.group,), context)


def _teams(device: Device, x: Spec, attrs: Any) -> RowTeams:
    return row_teams(device, _rows(x, attrs["dims"])[1], DTYPES[x.dtype])


def _plan(request: Request) -> Kernels:
    """A team for each row."""
    x, given, back = request.inputs[0], len(request.inputs), request.operator == BACKWARD
    flags = {"weighted": given > 1 + back, "biased": given > 2 and not back}
    buffers = [*(("in", i) for i in range(given)), ("out", 0)]
    teams = _teams(request.device, x, request.attrs)
    attrs, slots = request.attrs, request.slots
    return Kernels((_kernel(request.operator, x, buffers, teams, attrs, flags, slots=slots),))


# -- all gradients in one pass ------------------------------------------------------------


def _gradient_kernels(
    device: Device, x: Spec, weighted: bool, sums: Sequence[str], attrs: Any
) -> Kernels | None:
    """The gradients of x (output 0) and of `sums` (outputs 1, 2); None: rows are too long."""
    teams = _teams(device, x, attrs)
    if not teams.held:
        return None
    rows, size = _rows(x, attrs["dims"])
    most = device.compute_units * _SUMMING_GROUPS * (teams.group // teams.team)
    turns = -(-rows // most)
    partial = {"float": "float32", "double": "float64"}[DTYPES[x.dtype].compute]
    parts = Spec((teams.number(-(-rows // turns)), size), partial)
    buffers = [*(("in", i) for i in range(2 + weighted)), ("out", 0)]
    buffers += [("scratch", i) for i in range(len(sums))]
    flags = {"weighted": weighted, "sums": tuple(sums)}
    kernel = _kernel(BACKWARD, x, buffers, teams, attrs, flags, turns)
    nbytes = parts.size * DTYPES[partial].itemsize
    result = Kernels((kernel,), (nbytes,) * len(sums))
    for i in range(len(sums)):
        finish = reduction_kernels(SUM, device, parts, (0,), x.dtype)
        result = result.then(finish, {("in", 0): ("scratch", i), ("out", 0): ("out", 1 + i)})
    return result


@lru_cache(maxsize=4096)
def _all_gradients(
    device: Device, x: Spec, weighted: bool, sums: tuple[str, ...], attrs: tuple[Any, ...]
) -> Bound | None:
    plan = _gradient_kernels(device, x, weighted, sums, dict(attrs))
    return None if plan is None else Bound(device, plan, (), ())


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, weight, _ = saved.inputs
    attrs = saved.attrs
    sums = tuple(name for name, need in zip(_SUMS, saved.needs[1:], strict=True) if need)
    bound = None
    if sums and x.size and x.device.backend == "opencl":
        spec = Spec(x.shape, x.dtype)
        weighted = weight is not None
        bound = _all_gradients(x.device, spec, weighted, sums, tuple(attrs.items()))
    if bound is None:
        return _separate_gradients(saved, grad)
    trailing = x.shape[-attrs["dims"] :]
    results = [
        Tensor.empty(shape, x.dtype, x.device) for shape in (x.shape, *(trailing,) * len(sums))
    ]
    given = [x, grad] if weight is None else [x, grad, weight]
    bound([each.buffer for each in given], [each.buffer for each in results])
    by_name = dict(zip(sums, results[1:], strict=True))
    return [results[0], *(by_name.get(name) for name in _SUMS)]


def _separate_gradients(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The same by one op after the other."""
    x, weight, _ = saved.inputs
    attrs = saved.attrs
    leading = tuple(range(x.ndim - attrs["dims"]))

    def summed(terms: Any) -> Any:
        return ag.sum(terms, leading) if leading else terms

    dx = ag.norm_rows_backward(x, grad, weight, **attrs) if saved.needs[0] else None
    dw = summed(ag.mul(grad, ag.norm_rows(x, **attrs))) if saved.needs[1] else None
    return [dx, dw, summed(grad) if saved.needs[2] else None]


# -- the NumPy path -----------------------------------------------------------------------


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x is not None and x.dtype == np.float16 else x


def _standardized(
    x: Any, dims: int, eps: float, centered: bool
) -> tuple[Any, Any, tuple[int, ...]]:
    """The standardised rows, what they were multiplied by, and their axes."""
    over = tuple(range(x.ndim - dims, x.ndim))
    x = x - x.mean(axis=over, keepdims=True) if centered else x
    scale = 1 / np.sqrt(np.square(x).mean(axis=over, keepdims=True) + x.dtype.type(eps))
    return x * scale, scale, over


def _reference(x: Any, weight: Any, bias: Any, dims: int, eps: float, centered: bool) -> Any:
    result = _standardized(_wide(x), dims, eps, centered)[0]
    result = result if weight is None else result * _wide(weight)
    return result if bias is None else result + _wide(bias)


def _reference_backward(
    x: Any, grad: Any, weight: Any, dims: int, eps: float, centered: bool
) -> Any:
    h, scale, over = _standardized(_wide(x), dims, eps, centered)
    g = _wide(grad) if weight is None else _wide(grad) * _wide(weight)
    along = h * (g * h).mean(axis=over, keepdims=True)
    return scale * ((g - g.mean(axis=over, keepdims=True) if centered else g) - along)


OPERATORS = (
    Operator(
        name=FORWARD,
        bind=_bind,
        infer=_infer,
        reference=_reference,
        backward=_backward,
        saves=(0, 1),
        implementations=(
            Implementation(
                FORWARD,
                "team per row",
                _plan,
                prologue=True,
                epilogue=True,
                rereads=True,
                stretch=lambda request: _rows(request.inputs[0], request.attrs["dims"])[1],
            ),
        ),
        doc="norm_rows(x, weight=None, bias=None, dims=1, eps=1e-5, centered=True): the last `dims`"
        " axes standardised in one kernel; not centered: divided by the root of the mean square.",
    ),
    Operator(
        name=BACKWARD,
        bind=_bind_backward,
        infer=_infer_backward,
        reference=_reference_backward,
        implementations=(Implementation(BACKWARD, "team per row", _plan),),
        doc="norm_rows_backward(x, grad, weight, dims, eps, centered): the gradient of its x.",
    ),
)
