"""Channels or groups of channels standardised by one kernel each way: batch and group norm.

Statistics, result and gradients of x (N, C, ...) follow from how the elements of a *team* lie in
memory: those of a channel are N runs apart from each other, those of a group one stretch. Runs of
one element are the columns of a matrix.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_tensor.norm_columns import columns
from netcl_plugin_tensor.reducing import SUM, group_items, load_width, reduction_kernels, tree_sum

TEMPLATE: Final = "tensor/norm_runs.cl.j2"
FORWARD: Final = "norm_runs"
BACKWARD: Final = "norm_runs_backward"
#: Elements that are added up before sums are folded and combined; more only where a run is longer.
_BLOCK: Final = 8192
#: The lanes of a vector on CPUs.
_LANES: Final = 16
#: Work-groups per compute unit below which a GPU divides the runs of a team among several; a
#: second launch pays if each has so many elements.
_GROUPS: Final = 8
_WORTH: Final = 4096
#: The template's flags for a kernel that reads and writes nothing beside the elements.
_PLAIN: Final = {"weighted": False, "biased": False, "sums": "", "running": "", "rated": False}


@final
@dataclass(frozen=True)
class NormLayout:
    """Where the elements of each team are: `runs` runs of `length` contiguous elements."""

    teams: int
    runs: int
    length: int
    origin: int
    stride: int
    groups: int
    per_run: bool


def layout_of(x: Spec, groups: int) -> NormLayout:
    """Teams of x (N, C, ...): its channels, or with `groups` the groups of each sample."""
    count, channels, *rest = x.shape
    length = math.prod(rest)
    if not groups:
        return NormLayout(channels, count, length, length, channels * length, channels, False)
    runs = channels // groups
    return NormLayout(count * groups, runs, length, runs * length, length, groups, True)


# -- launches --------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Division:
    """How work-groups share the teams: of `group` items, `parts` of them per team."""

    group: int
    width: int
    parts: int
    per_part: int


def _division(device: Device, x: Spec, layout: NormLayout) -> _Division:
    gpu = device.kind == "gpu"
    wanted = device.compute_units * (_GROUPS if gpu else 1)
    worth = layout.runs * layout.length // _WORTH
    whole = layout.per_run and not gpu  # a CPU takes the runs of a group as one
    parts = 1 if whole else max(1, min(layout.runs, worth, wanted // max(1, layout.teams)))
    per_part = -(-layout.runs // parts)
    parts = -(-layout.runs // per_part)
    if not gpu:
        return _Division(1, _LANES, parts, per_part)
    dtype = DTYPES[x.dtype]
    width = load_width(dtype.itemsize)
    while layout.length % width:
        width //= 2
    return _Division(group_items(device, DTYPES[dtype.wide].itemsize), width, parts, per_part)


def _launches(request: Request, entry: str, inputs: int, outputs: Any, **flags: Any) -> Kernels:
    """One launch, or two with what each part gives in scratch memory between them."""
    x, device = request.inputs[0], request.device
    layout = layout_of(x, request.attrs["groups"])
    base = {**_PLAIN, "weight_storage": DTYPES[x.dtype].storage}
    if layout.length == 1 and not layout.per_run:
        return columns(request, entry, outputs, base | flags)
    cut, dtype = _division(device, x, layout), DTYPES[x.dtype]
    per_block = cut.per_part if cut.group > 1 else max(1, _BLOCK // max(1, layout.length))
    if layout.per_run and "backward" in entry:
        per_block = 1  # each run has sums of its own
    numbers = [layout.groups, layout.runs, layout.length, layout.origin, layout.stride]
    numbers += [cut.parts, cut.per_part, per_block]
    rates = [(dtype.compute, request.attrs.get(name, 0.0)) for name in ("eps", "momentum")]
    tail = [*(("ulong", n) for n in numbers), *rates]
    context = {"storage": dtype.storage, "acc": dtype.compute, "group": cut.group,
               "width": cut.width, "per_run": layout.per_run, **base, **flags}  # fmt: skip
    given = [("in", i) for i in range(inputs)]
    items = ((layout.teams * cut.parts * cut.group,), (cut.group,))
    if cut.parts == 1:
        return Kernels((Kernel(TEMPLATE, entry, (*given, *outputs, *tail), *items, context),))
    first = _PLAIN | {"weight_storage": context["weight_storage"]}
    sums: list[Any] = []
    if layout.per_run and "backward" in entry:  # parts have the weights and the sums of their runs
        first |= {name: context[name] for name in ("weighted", "sums")}
        sums, outputs, context = outputs[1:], outputs[:1], context | {"sums": ""}
        read = given
    else:
        read = given[: 4 if "backward" in entry else 1]
    scratch = [("scratch", len(sums)), ("scratch", len(sums) + 1)]
    args = (*read, *scratch, *sums, *tail)
    parts = Kernel(TEMPLATE, f"{entry}_parts", args, *items, context | first)
    args = (*given, *scratch, *outputs, *tail)
    apply = Kernel(TEMPLATE, f"{entry}_apply", args, *items, context)
    nbytes = layout.teams * cut.parts * DTYPES[dtype.wide].itemsize
    return Kernels((parts, apply), (nbytes, nbytes))


def _plan(request: Request) -> Kernels:
    _, weighted, biased, running, _, rated = request.given
    given = iter(request.inputs[1:])
    storages = [DTYPES[next(given).dtype].storage if there else "" for there in request.given[1:]]
    flags = {"weighted": weighted, "biased": biased, "running": storages[2], "rated": rated}
    flags["weight_storage"] = storages[0] or storages[1]
    flags["rate_storage"] = storages[4]
    outputs = [("out", i) for i in range(5 if running else 3)]
    return _launches(request, FORWARD, len(request.inputs), outputs, **flags)


def _plan_backward(request: Request) -> Kernels:
    """The gradient of x (output 0), and with `sums` those of weight and bias (outputs 1 and 2)."""
    x, sums = request.inputs[0], bool(request.attrs["sums"])
    layout = layout_of(x, request.attrs["groups"])
    dtype = request.attrs["sums"] or x.dtype
    flags: dict[str, Any] = {"weighted": request.given[4], "weight_storage": DTYPES[dtype].storage}
    inputs = len(request.inputs)
    if not (sums and layout.per_run):
        outputs = [("out", i) for i in range(3 if sums else 1)]
        flags["sums"] = "own" if sums else ""
        return _launches(request, BACKWARD, inputs, outputs, **flags)
    outputs = [("out", 0), ("scratch", 0), ("scratch", 1)]
    kernels = _launches(request, BACKWARD, inputs, outputs, **flags, sums="wide")
    parts = Spec((x.shape[0], x.shape[1]), DTYPES[x.dtype].wide)
    nbytes = parts.size * DTYPES[parts.dtype].itemsize
    kernels = Kernels(kernels.launches, (nbytes, nbytes, *kernels.scratch))
    for i in range(2):
        finish = reduction_kernels(SUM, request.device, parts, (0,), dtype)
        kernels = kernels.then(finish, {("in", 0): ("scratch", i), ("out", 0): ("out", 1 + i)})
    return kernels


# -- the op ----------------------------------------------------------------------------------


def _bind(
    x: Any, weight: Any, bias: Any, groups: int, eps: float,
    running_mean: Any = None, running_var: Any = None, momentum: Any = 0.0,
) -> Any:  # fmt: skip
    both = isinstance(weight, Tensor) and isinstance(bias, Tensor)
    if both and weight.dtype != bias.dtype:
        bias = ag.astype(bias, weight.dtype)
    rate = momentum if isinstance(momentum, Tensor) else None
    number = 0.0 if rate is not None else float(momentum)
    attrs = {"groups": operator.index(groups), "eps": float(eps), "momentum": number}
    return (x, weight, bias, running_mean, running_var, rate), attrs


def _infer(
    x: Spec, weight: Spec | None, bias: Spec | None, running_mean: Spec | None,
    running_var: Spec | None, rate: Spec | None, groups: int, eps: float, momentum: float,
) -> tuple[Spec, ...]:  # fmt: skip
    who = "group_norm" if groups else "batch_norm"
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message(who, f"a {x.dtype} tensor", "a floating dtype"))
    given = {"weight": weight, "bias": bias, "running_mean": running_mean,
             "running_var": running_var}  # fmt: skip
    for name, operand in given.items():
        if operand is not None and operand.shape != x.shape[1:2]:
            text = f"a {name} of shape {operand.shape}"
            raise ShapeError(message(who, text, f"one number per channel, {x.shape[1:2]}"))
    for one, other in ((weight, bias), (running_mean, running_var)):
        if one is not None and other is not None and one.dtype != other.dtype:
            text = f"{one.dtype} and {other.dtype} for two of weight, bias, running statistics"
            raise DtypeError(message(who, text, "one dtype for both"))
    wide = Spec((layout_of(x, groups).teams,), DTYPES[x.dtype].wide)
    if running_mean is None or running_var is None:
        return x, wide, wide
    return x, wide, wide, running_mean, running_var


def _axes(x: Any, groups: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape with one axis per part of the layout, the team's axes, and a weight's shape."""
    count, channels = x.shape[:2]
    length = math.prod(x.shape[2:])
    if not groups:
        return (count, channels, length), (0, 2), (channels, 1)
    runs = channels // groups
    return (count, groups, runs, length), (2, 3), (groups, runs, 1)


def _reference(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, rate: Any, groups: int,
    eps: float, momentum: float,
) -> Any:  # fmt: skip
    shape, over, channels = _axes(x, groups)
    lines = widened(x).reshape(shape)
    mean = lines.mean(over, keepdims=True)
    variance = np.square(lines - mean).mean(over, keepdims=True)
    out = (lines - mean) / np.sqrt(variance + lines.dtype.type(eps))
    out = out if weight is None else out * widened(weight).reshape(channels)
    out = out if bias is None else out + widened(bias).reshape(channels)
    results = (out.reshape(x.shape), mean.reshape(-1), variance.reshape(-1))
    if running_mean is None:
        return results
    size = lines.size // max(1, mean.size)
    share = lines.dtype.type(momentum) if rate is None else widened(rate)
    return *results, *(
        widened(running) * (1 - share) + batch * share * factor
        for running, batch, factor in (
            (running_mean, results[1], 1.0),
            (running_var, results[2], size / (size - 1)),
        )
    )


def _formula(x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, Any, Any]:
    """The results by other ops: what is differentiated for gradients of gradients."""
    shape, over, channels = _axes(x, groups)
    wide = DTYPES[x.dtype].wide
    lines = ag.reshape(x if wide == x.dtype else ag.astype(x, wide), shape)
    mean = ag.mean(lines, over, True)
    centered = ag.sub(lines, mean)
    variance = ag.mean(ag.square(centered), over, True)
    out = ag.mul(centered, ag.rsqrt(ag.add(variance, eps)))
    out = out if weight is None else ag.mul(out, ag.reshape(weight, channels))
    out = out if bias is None else ag.add(out, ag.reshape(bias, channels))
    values = ag.reshape(out, x.shape)
    values = values if values.dtype == x.dtype else ag.astype(values, x.dtype)
    return values, ag.reshape(mean, (-1,)), ag.reshape(variance, (-1,))


def _by_formula(saved: Saved, grads: Sequence[Any]) -> Sequence[Any]:
    """The gradients of x, weight and bias, recorded if the grad mode is on."""
    record, inputs = ag.is_grad_enabled(), saved.inputs[:3]
    if not record:
        inputs = tuple([None if x is None else x.detach().requires_grad_() for x in inputs])
    needs = saved.needs[:3] if grads[0] is not None else (saved.needs[0], False, False)
    wanted = [x for x, need in zip(inputs, needs, strict=True) if need]
    with ag.enable_grad():
        x, weight, bias = inputs
        results = _formula(x, weight, bias, saved.attrs["groups"], saved.attrs["eps"])
        outputs = [y for y, grad in zip(results, grads, strict=True) if grad is not None]
        given = [grad for grad in grads if grad is not None]
        gradients = ag.grad(outputs, wanted, given, create_graph=record, allow_unused=True)
    parts = iter(gradients)
    return [next(parts) if need else None for need in needs]


def _zeros(like: Any) -> Any:
    return Tensor.zeros(like.shape, like.dtype, like.device)


def _backward(saved: Saved, grad: Any, mean: Any, variance: Any, *_: Any) -> Sequence[Any]:
    """All gradients by one kernel; those of mean and variance, which nothing here asks for, by
    other ops. Running statistics are constants."""
    return [*_gradients(saved, (grad, mean, variance)), None, None, None]


def _gradients(saved: Saved, grads: Sequence[Any]) -> Sequence[Any]:
    grad, *moments = grads
    if ag.is_grad_enabled() or grad is None or any(moment is not None for moment in moments):
        return _by_formula(saved, grads)
    x, weight, bias, *_ = saved.inputs
    if not grad.size:  # no kernel: there are no teams
        return [None if operand is None else _zeros(operand) for operand in (x, weight, bias)]
    mean, variance = saved.outputs[1:3]
    affine = weight if weight is not None else bias
    sums = affine.dtype if True in saved.needs[1:3] else ""
    eps, groups = saved.attrs["eps"], saved.attrs["groups"]
    results = NORM_RUNS_BACKWARD(x, grad, mean, variance, weight, groups, eps, sums)
    if not sums:
        return [results, None, None]
    return [result if need else None for result, need in zip(results, saved.needs, strict=False)]


# -- its gradient ----------------------------------------------------------------------------


def _bind_backward(
    x: Any, grad: Any, mean: Any, variance: Any, weight: Any, groups: int, eps: float, sums: str
) -> Any:
    attrs = {"groups": operator.index(groups), "eps": float(eps), "sums": str(sums)}
    return (x, grad, mean, variance, weight), attrs


def _infer_backward(
    x: Spec, grad: Spec, mean: Spec, variance: Spec, weight: Spec | None, groups: int, eps: float,
    sums: str,
) -> Any:  # fmt: skip
    if grad != x:
        raise ShapeError(message(BACKWARD, f"{x} and {grad}", "equal shapes and dtypes"))
    channel = Spec(x.shape[1:2], sums)
    return (x, channel, channel) if sums else x


def _reference_backward(
    x: Any, grad: Any, mean: Any, variance: Any, weight: Any, groups: int, eps: float, sums: str
) -> Any:
    shape, over, channels = _axes(x, groups)
    lines, g = widened(x).reshape(shape), widened(grad).reshape(shape)
    kept = tuple(1 if i in over else size for i, size in enumerate(shape))
    scale = 1 / np.sqrt(variance.reshape(kept) + lines.dtype.type(eps))
    h = (lines - mean.reshape(kept)) * scale
    inner = g if weight is None else g * widened(weight).reshape(channels)
    along = h * (inner * h).mean(over, keepdims=True)
    dx = (scale * (inner - inner.mean(over, keepdims=True) - along)).reshape(x.shape)
    if not sums:
        return dx
    rest = (0, len(shape) - 1)
    totals = [tree_sum(term, rest, term.dtype).reshape(-1) for term in (g * h, g)]
    return dx, *totals


NORM_RUNS_BACKWARD: Final = Operator(
    name=BACKWARD,
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    implementations=(Implementation(BACKWARD, "group per team", _plan_backward),),
    doc="norm_runs_backward(x, grad, mean, variance, weight, groups, eps, sums): the gradient of x "
    "and, in the dtype that `sums` names, those of weight and bias.",
)
NORM_RUNS: Final = Operator(
    name=FORWARD,
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(0, 1, 2),
    saves_results=(1, 2),
    implementations=(Implementation(FORWARD, "group per team", _plan),),
    parts=(NORM_RUNS_BACKWARD,),
    doc="norm_runs(x, weight, bias, groups, eps, running_mean=None, running_var=None, momentum=0): "
    "x (N, C, ...) standardised per channel or, with groups > 0, per group of channels; the mean "
    "and variance of each; and the running ones, moved towards these.",
)
