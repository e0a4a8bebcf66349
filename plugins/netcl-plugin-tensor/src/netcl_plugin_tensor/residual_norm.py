"""The end of a transformer's block: layer_norm(dropout(x + bias) + residual), one kernel each way.

A training pattern: its part is a function of those ops, with kernels, since each of the ops alone
reads and writes the whole tensor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from netcl_plugin_patterns import Captured, MatchedOp, TrainingPattern

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import (
    NO_SLOTS,
    Implementation,
    Operator,
    Request,
    Requirements,
    Saved,
    composite,
)
from netcl_core.errors import ShapeError, message
from netcl_plugin_tensor.dropout import RANDOM_MASK, threshold
from netcl_plugin_tensor.norm_rows import NORM_ROWS_BACKWARD
from netcl_plugin_tensor.reducing import SUM, RowTeams, reduction_kernels, row_teams, tree_sum

NAME: Final = "bias_dropout_residual_layer_norm"
ROWS: Final = "residual_norm_rows"
BACKWARD: Final = "residual_norm_rows_backward"
TEMPLATE: Final = "tensor/residual_norm.cl.j2"
TEAMS: Final = "tensor/residual_norm_teams.cl.j2"
FLOATS: Final = ("bfloat16", "float16", "float32", "float64")
#: Blocks of rows per compute unit: each leaves a row of sums behind in the backward.
_BLOCKS: Final = 4
#: Work-groups per compute unit whose teams add up gradients over several rows.
_SUMMING_GROUPS: Final = 8
#: The elements that one vector of random words is for.
_WIDEST: Final = 16


def _launch(request: Request, entry: str, sums: int) -> Kernels:
    """An item of work per block of rows; `sums` of the gradients are added up over the rows."""
    x, device = request.inputs[0], request.device
    rows, size = _rows(x)
    blocks = min(rows, device.compute_units * _BLOCKS)
    turns = -(-rows // blocks)
    blocks = -(-rows // turns)
    scratch = sums + 2 if sums else 1
    context = {"width": math.gcd(size, _WIDEST)}
    kernel = _kernel(request, entry, TEMPLATE, turns, scratch, (blocks,), 1, context)
    held = Spec((blocks, size), DTYPES[x.dtype].wide)
    return _summed(request, kernel, held, scratch, sums)


def _launch_teams(request: Request, entry: str, sums: int) -> Kernels:
    """The same by a team of items per row."""
    x, device = request.inputs[0], request.device
    rows, size = _rows(x)
    teams = _teams(device, x)
    most = device.compute_units * _SUMMING_GROUPS * (teams.group // teams.team)
    turns = -(-rows // most) if sums else 1
    number = -(-rows // turns)
    context = {**teams.context, **NO_SLOTS.context(teams.width, aligned=True)}
    items = (teams.items(number),)
    kernel = _kernel(request, entry, TEAMS, turns, sums, items, teams.group, context)
    parts = Spec((teams.number(number), size), DTYPES[x.dtype].wide)
    return _summed(request, kernel, parts, sums, sums)


def _rows(x: Spec) -> tuple[int, int]:
    """The number of rows, and the length of each."""
    return math.prod(x.shape[:-1]), x.shape[-1]


def _teams(device: Device, x: Spec) -> RowTeams:
    return row_teams(device, x.shape[-1], DTYPES[x.dtype])


def _kernel(
    request: Request,
    entry: str,
    template: str,
    turns: int,
    scratch: int,
    items: tuple[int, ...],
    group: int,
    context: dict[str, Any],
) -> Kernel:
    """The launch: inputs, one output or the two of each element's gradients, scratch, numbers."""
    x, attrs = request.inputs[0], request.attrs
    dtype, (rows, size) = DTYPES[x.dtype], _rows(x)
    inputs = [("in", i) for i in range(len(request.inputs))]
    outputs = [("out", i) for i in range(2 if entry == BACKWARD else 1)]
    numbers = (
        ("ulong", rows), ("ulong", size), ("ulong", turns), ("ulong", threshold(attrs["p"])),
        (dtype.compute, 1 / (1 - attrs["p"])), (dtype.compute, attrs["eps"]),
    )  # fmt: skip
    args = (*inputs, *outputs, *(("scratch", i) for i in range(scratch)), *numbers)
    context = {"storage": dtype.storage, "acc": dtype.compute, **context}
    return Kernel(template, entry, args, items, (group,), context)


def _summed(request: Request, kernel: Kernel, parts: Spec, scratch: int, sums: int) -> Kernels:
    """The launch with its scratch memory, and with the reductions of its first parts."""
    nbytes = parts.size * DTYPES[parts.dtype].itemsize
    result = Kernels((kernel,), (nbytes,) * scratch)
    for i in range(sums):
        finish = reduction_kernels(SUM, request.device, parts, (0,), request.inputs[0].dtype)
        result = result.then(finish, {("in", 0): ("scratch", i), ("out", 0): ("out", 2 + i)})
    return result


def _too_long(request: Request) -> str | None:
    x = request.inputs[0]
    return None if _teams(request.device, x).held else f"no registers hold rows of {x.shape[-1]}"


# -- all gradients in one pass ------------------------------------------------------------


def _bind_backward(
    x: Any, bias: Any, residual: Any, weight: Any, grad: Any, state: Any, p: float, eps: float
) -> Any:
    return (x, bias, residual, weight, grad, state), {"p": float(p), "eps": float(eps)}


def _infer_backward(
    x: Spec, bias: Spec, residual: Spec, weight: Spec, grad: Spec, state: Spec, p: float, eps: float
) -> tuple[Spec, ...]:
    row = Spec(x.shape[-1:], x.dtype)
    if not (x == residual == grad and bias == weight == row):
        given = f"{x}, {residual} and {grad} with rows {bias} and {weight}"
        raise ShapeError(message(BACKWARD, given, "three alike, and two of their rows"))
    return x, x, row, row, row


def _reference_backward(
    x: Any, bias: Any, residual: Any, weight: Any, grad: Any, state: Any, p: float, eps: float
) -> Any:
    """The gradients of x, the residual, the bias, the weight and the shift in NumPy."""
    given = (x, bias, residual, weight, grad)
    x, bias, residual, weight, grad = (widened(operand) for operand in given)
    mask, norm_backward = RANDOM_MASK.reference, NORM_ROWS_BACKWARD.reference
    assert mask is not None  # it is no function of ops
    assert norm_backward is not None  # nor is it
    h = mask(x + bias, state, p) + residual
    attrs = {"dims": 1, "eps": eps, "centered": True, "sums": ("weight", "bias")}
    dh, dweight, dshift = norm_backward(h, grad, weight, None, **attrs)
    dx = mask(dh, state, p)
    leading = tuple(range(x.ndim - 1))
    return dx, dh, tree_sum(dx, leading, x.dtype), dweight, dshift


NORM_BACKWARD: Final = Operator(
    name=BACKWARD,
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    implementations=(
        Implementation(
            BACKWARD,
            "item per block of rows",
            lambda request: _launch(request, BACKWARD, 3),
            Requirements(dtypes=FLOATS),
        ),
        Implementation(
            BACKWARD,
            "team per row",
            lambda request: _launch_teams(request, BACKWARD, 3),
            Requirements(device_kinds=("gpu",), dtypes=FLOATS, reject=_too_long),
            priority=1,
        ),
    ),
    results=("x", "residual", "bias", "weight", "shift"),
    doc=f"{BACKWARD}(x, bias, residual, weight, grad, state, p, eps): the gradients of "
    "residual_norm_rows.",
)


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, bias, residual, weight, _, state = saved.inputs
    attrs = saved.attrs
    dx, dh, dbias, dweight, dshift = NORM_BACKWARD(x, bias, residual, weight, grad, state, **attrs)
    return [dx, dbias, dh, dweight, dshift, None]


# -- the value ----------------------------------------------------------------------------


def residual_norm_rows(
    x: Any, bias: Any, residual: Any, weight: Any, shift: Any, state: Any, p: float, eps: float
) -> Any:
    """What the pattern matches, as ops, for a random state that is given."""
    h = ag.add(RANDOM_MASK(ag.add(x, bias), state, p), residual)
    return ag.layer_norm(h, x.shape[-1:], weight, shift, eps)


def _reject(request: Request) -> str | None:
    x, bias, residual, weight, shift, _ = request.inputs
    fits = x == residual and bias == weight == shift == Spec(x.shape[-1:], x.dtype)
    return None if fits else f"x is {x}, the others are {bias}, {residual}, {weight}, {shift}"


def _reject_teams(request: Request) -> str | None:
    return _reject(request) or _too_long(request)


RESIDUAL_NORM: Final = composite(
    residual_norm_rows,
    ("x", "bias", "residual", "weight", "shift", "state"),
    infer=lambda x, bias, residual, weight, shift, state, p, eps: x,
    implementations=(
        Implementation(
            ROWS,
            "item per block of rows",
            lambda request: _launch(request, ROWS, 0),
            Requirements(device_kinds=("cpu", "accelerator"), dtypes=FLOATS, reject=_reject),
            backward=_backward,
            saves_results=(),
        ),
        Implementation(
            ROWS,
            "team per row",
            lambda request: _launch_teams(request, ROWS, 0),
            Requirements(device_kinds=("gpu",), dtypes=FLOATS, reject=_reject_teams),
            backward=_backward,
            saves_results=(),
        ),
    ),
    parts=(NORM_BACKWARD,),
)

# -- the pattern --------------------------------------------------------------------------

_DROPPED: Final = MatchedOp(
    "dropout",
    (MatchedOp("add", ("x", "bias")),),
    (("p", Captured("p")), ("training", True)),
)
MATCHER: Final = MatchedOp(
    "layer_norm",
    (MatchedOp("add", (_DROPPED, "residual")), "weight", "shift"),
    (("normalized_shape", Captured("over")), ("eps", Captured("eps"))),
)


def planner(
    x: Any, bias: Any, residual: Any, weight: Any, shift: Any, p: Any, over: Any, eps: Any
) -> Any:
    """One op where rows are the last axis and only bias is broadcast; else None."""
    if x.ndim < bias.ndim:  # either may have matched as either
        x, bias = bias, x
    axes = 1 if isinstance(over, int) else len(over)
    row, each = x.shape[-1:], (bias, weight, shift)
    dtypes = {tensor.dtype for tensor in (x, residual, *each)}
    if axes != 1 or x.shape != residual.shape or len(dtypes) > 1:
        return None
    if any(tensor.shape != row for tensor in each) or not 0 < p < 1 or threshold(p) >= 2**32:
        return None
    return RESIDUAL_NORM(x, bias, residual, weight, shift, nc.random_state(x.device), p, eps)


PATTERNS: Final = (
    TrainingPattern(
        NAME,
        MATCHER,
        planner,
        templates=(TEMPLATE, TEAMS),
        dtypes=FLOATS,
        parts=(RESIDUAL_NORM,),
        doc="layer_norm(dropout(x + bias) + residual) over the last axis, one kernel each way.",
    ),
)
