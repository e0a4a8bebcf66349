"""Rows standardised by one kernel each way: layer_norm and rms_norm, by teams on GPUs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import (
    NO_SLOTS,
    Implementation,
    Operator,
    Request,
    Requirements,
    Saved,
    Slots,
)
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import norm_blocks
from netcl_plugin_tensor.reducing import RowTeams, row_teams, tree_sum

TEMPLATE: Final = "tensor/norm_rows.cl.j2"
FORWARD: Final = "norm_rows"
BACKWARD: Final = "norm_rows_backward"
#: What rms_norm adds where no eps is given: the machine epsilon.
EPSILON: Final = {n: float(dtype.limits.eps) for n, dtype in DTYPES.items() if dtype.floating}
#: Work-groups per compute unit whose teams add up gradients over several rows: few, since every
#: team leaves a row of sums behind.
_SUMMING_GROUPS: Final = 8
_SUMS: Final = ("weight", "bias")


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
        "added": False,
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


# -- the forward of layer_norm and rms_norm ---------------------------------------------------


def rows_implementations(name: str, *, centered: bool) -> tuple[Implementation, ...]:
    """A team of work-items for each row, and on CPUs an item for a block of rows."""

    def implementation(label: str, kind: str, plan: Callable[..., Kernels]) -> Implementation:
        return Implementation(
            name,
            label,
            partial(plan, centered),
            Requirements(device_kinds=(kind,), reject=_reject),
            prologue=True,
            epilogue=True,
            rereads=True,
            stretch=lambda request: _rows(request.inputs[0], _dims(request.attrs))[1],
            backward=partial(_backward, centered),
            saves_results=(),
            adds=True,
        )

    return (
        implementation("team per row", "gpu", _plan),
        implementation("item per block of rows", "cpu", _plan_blocks),
    )


def _dims(attrs: Any) -> int:
    """How many of the last axes a row has."""
    given = attrs["normalized_shape"]
    return len(given) if isinstance(given, tuple) else 1


def _attrs_of(attrs: Any, x: Any, centered: bool) -> dict[str, Any]:
    """The metadata of layer_norm or rms_norm as the kernels take it."""
    eps = attrs["eps"]
    if eps is None:
        eps = EPSILON[x.dtype]
    elif isinstance(eps, bool) or not isinstance(eps, Real):
        who = "layer_norm" if centered else "rms_norm"
        raise AttributeValueError(message(who, f"eps={eps!r}", "a number"))
    eps = float(eps)
    return {"dims": _dims(attrs), "eps": eps, "centered": centered}


def _reject(request: Request) -> str | None:
    """Rows are of one dtype, and a bias comes with a weight."""
    x = request.inputs[0]
    affine = Spec(x.shape[x.ndim - _dims(request.attrs) :], x.dtype)
    if not DTYPES[x.dtype].floating:
        return f"x is {x.dtype}"
    if request.given[2:] == (True,) and not request.given[1]:
        return "there is a bias without a weight"
    odd = next((spec for spec in request.inputs[1:] if spec != affine), None)
    return None if odd is None else f"weight or bias is {odd}, not {affine}"


def _plan(centered: bool, request: Request) -> Kernels:
    x, given, slots = request.inputs[0], len(request.inputs), request.slots
    attrs, flags = _attrs_of(request.attrs, x, centered), _flags(request)
    buffers = [*(("in", i) for i in range(given)), ("out", 0)]
    teams = _teams(request.device, x, attrs)
    return Kernels((_kernel(FORWARD, x, buffers, teams, attrs, flags, slots=slots),))


def _flags(request: Request) -> dict[str, Any]:
    given = len(request.inputs)
    return {"weighted": given > 1, "biased": given > 2, "added": False, "sums": ()}


def _plan_blocks(centered: bool, request: Request) -> Kernels:
    attrs = _attrs_of(request.attrs, request.inputs[0], centered)
    return norm_blocks.plan(FORWARD, request, attrs, _flags(request))


# -- all gradients in one pass ------------------------------------------------------------


def _bind_backward(
    x: Any, grad: Any, weight: Any, held: Any, dims: int, eps: float, centered: bool,
    sums: Sequence[str],
) -> Any:  # fmt: skip
    attrs = {"dims": operator.index(dims), "eps": float(eps), "centered": bool(centered)}
    return (x, grad, weight, held), {**attrs, "sums": tuple(sums)}


def _infer_backward(
    x: Spec, grad: Spec, weight: Spec | None, held: Spec | None, dims: int, eps: float,
    centered: bool, sums: Any,
) -> tuple[Spec, ...]:  # fmt: skip
    if grad != x or held not in (None, x):
        raise ShapeError(message(BACKWARD, f"{x} and {grad}", "equal shapes and dtypes"))
    return x, *(Spec(x.shape[x.ndim - dims :], x.dtype) for _ in sums)


def _plan_backward(request: Request) -> Kernels:
    """The gradient of x (output 0), and those of `sums` (outputs 1, 2) added up over the rows."""
    device, x, attrs = request.device, request.inputs[0], request.attrs
    sums = attrs["sums"]
    teams = _teams(device, x, attrs)
    rows, size = _rows(x, attrs["dims"])
    most = device.compute_units * _SUMMING_GROUPS * (teams.group // teams.team)
    turns = -(-rows // most) if sums else 1
    partial_sum = DTYPES[x.dtype].wide
    parts = Spec((teams.number(-(-rows // turns)), size), partial_sum)
    buffers = [*(("in", i) for i in range(len(request.inputs))), ("out", 0)]
    buffers += [("scratch", i) for i in range(len(sums))]
    flags = _flags_of_gradients(request)
    kernel = _kernel(BACKWARD, x, buffers, teams, attrs, flags, turns)
    return norm_blocks.summed(request, kernel, len(sums), parts)


def _flags_of_gradients(request: Request) -> dict[str, Any]:
    _, _, weighted, added = request.given
    return {"weighted": weighted, "biased": False, "added": added, "sums": request.attrs["sums"]}


def _plan_backward_blocks(request: Request) -> Kernels:
    return norm_blocks.plan(BACKWARD, request, request.attrs, _flags_of_gradients(request))


def _backward(centered: bool, saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, weight, *_ = saved.inputs
    attrs = _attrs_of(saved.attrs, x, centered)
    sums = [name for name, need in zip(_SUMS, saved.needs[1:], strict=False) if need]
    if sums and not _sums_by_rows(x, attrs):
        gradients = _separate_gradients(saved, grad, attrs)
    elif sums or saved.needs[0]:
        held = saved.held[0] if saved.held else None
        held = held if held is not None and held.dtype == x.dtype else None
        results = NORM_ROWS_BACKWARD(x, grad, weight, held, **attrs, sums=sums)
        dx, *rest = results if sums else [results]
        dx = dx if held is None else ag.Added(dx)
        by_name = dict(zip(sums, rest, strict=True))
        gradients = [dx, *(by_name.get(name) for name in _SUMS)]
    return gradients[: len(saved.inputs)]


def _sums_by_rows(x: Any, attrs: Any) -> bool:
    """Whether the kernel of rows can add up the gradients of weight and bias, too."""
    return x.device.kind != "gpu" or _teams(x.device, Spec(x.shape, x.dtype), attrs).held > 0


def _separate_gradients(saved: Saved, grad: Tensor, attrs: Any) -> list[Any]:
    """The same of rows that no registers hold, by one op after the other."""
    x, weight, *_ = saved.inputs
    leading = tuple(range(x.ndim - attrs["dims"]))

    def summed(terms: Any) -> Any:
        return ag.sum(terms, leading) if leading else terms

    dx = dw = None
    if saved.needs[0]:
        dx = NORM_ROWS_BACKWARD(x, grad, weight, None, **attrs, sums=())
    if saved.needs[1]:
        norm = ag.layer_norm if attrs["centered"] else ag.rms_norm
        dw = summed(ag.mul(grad, norm(x, x.shape[x.ndim - attrs["dims"] :], eps=attrs["eps"])))
    return [dx, dw, summed(grad) if saved.needs[2:] == (True,) else None]


def _reference_backward(
    x: Any, grad: Any, weight: Any, held: Any, dims: int, eps: float, centered: bool,
    sums: Sequence[str],
) -> Any:  # fmt: skip
    over, leading = tuple(range(x.ndim - dims, x.ndim)), tuple(range(x.ndim - dims))
    x, grad = widened(x), widened(grad)
    x = x - x.mean(axis=over, keepdims=True) if centered else x
    scale = 1 / np.sqrt(np.square(x).mean(axis=over, keepdims=True) + x.dtype.type(eps))
    h, g = x * scale, grad if weight is None else grad * widened(weight)
    along = h * (g * h).mean(axis=over, keepdims=True)
    dx = scale * ((g - g.mean(axis=over, keepdims=True) if centered else g) - along)
    dx = dx if held is None else dx + widened(held)
    terms = {"weight": grad * h, "bias": grad}
    return dx, *(tree_sum(terms[name], leading, x.dtype) for name in sums)


NORM_ROWS_BACKWARD: Final = Operator(
    name=BACKWARD,
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    implementations=(
        Implementation(BACKWARD, "team per row", _plan_backward, Requirements(("gpu",))),
        Implementation(
            BACKWARD, "item per block of rows", _plan_backward_blocks, Requirements(("cpu",))
        ),
    ),
    doc="norm_rows_backward(x, grad, weight, held, dims, eps, centered, sums): the gradients of x, "
    "added to `held`, and, of those that `sums` names, of weight and bias.",
)
