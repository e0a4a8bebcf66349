"""Channels or groups of channels standardised by one kernel each way: batch and group norm.

Statistics, result and gradients of x (N, C, ...) follow from how the elements of a *team* lie in
memory: those of a channel are N runs apart from each other, those of a group one stretch. Runs of
one element are the columns of a matrix.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, final

import numpy as np
from netcl_plugin_patterns import Captured, MatchedOp, TrainingPattern

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_tensor.norm_columns import TEMPLATE as COLUMNS
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
_FLAGS: Final = ("weighted", "biased", "rated", "counted", "rectified", "joined", "passes")
_PLAIN: Final = {**dict.fromkeys(_FLAGS, False), "sums": "", "running": ""}


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
    elif context["rectified"] and "backward" in entry:  # to know what was below 0
        first |= {name: context[name] for name in ("weighted", "biased", "rectified", "joined")}
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
    _, weighted, biased, running, _, rated, counted, joined = request.given
    given = iter(request.inputs[1:])
    storages = [DTYPES[next(given).dtype].storage if there else "" for there in request.given[1:]]
    flags = {"weighted": weighted, "biased": biased, "running": storages[2], "rated": rated,
             "counted": counted, "rectified": request.attrs.get("rectified", False),
             "joined": joined}  # fmt: skip
    flags["weight_storage"] = storages[0] or storages[1]
    flags["rate_storage"] = storages[4]
    outputs = [("out", i) for i in range(len(request.outputs))]
    inputs = len(request.inputs)
    kernels = _launches(request, FORWARD, inputs, outputs, **flags)
    if not running:
        return kernels
    *others, last = kernels.launches
    first = inputs - joined - counted - rated - 2
    moved = [first, first + 1, *([inputs - joined - 1] if counted else [])]
    places = [(last.args.index(("in", i)), last.args.index(("out", 3 + k)))
              for k, i in enumerate(moved)]  # fmt: skip
    return replace(kernels, launches=(*others, replace(last, in_place=tuple(places))))


def _plan_backward(request: Request) -> Kernels:
    """The gradient of x (output 0), with `sums` those of weight and bias (outputs 1 and 2), and
    that of what was added, if anything was."""
    x, sums = request.inputs[0], bool(request.attrs["sums"])
    layout = layout_of(x, request.attrs["groups"])
    dtype = request.attrs["sums"] or x.dtype
    given, rectified = request.given, request.attrs.get("rectified", False)
    inputs = len(request.inputs)
    if given[4] or given[5]:  # which have one dtype
        dtype = request.inputs[4].dtype
    flags: dict[str, Any] = {
        "weighted": given[4],
        "biased": given[5],
        "rectified": rectified,
        "joined": given[6],
        "passes": given[6],
        "weight_storage": DTYPES[dtype].storage,
    }
    if not (sums and layout.per_run):
        outputs = [("out", i) for i in range(len(request.outputs))]
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
    running_mean: Any = None, running_var: Any = None, momentum: Any = 0.0, batches: Any = None,
    rectified: bool = False, added: Any = None,
) -> Any:  # fmt: skip
    both = isinstance(weight, Tensor) and isinstance(bias, Tensor)
    if both and weight.dtype != bias.dtype:
        bias = ag.astype(bias, weight.dtype)
    rate = momentum if isinstance(momentum, Tensor) else None
    number = 0.0 if rate is not None else float(momentum)
    attrs = {"groups": operator.index(groups), "eps": float(eps), "momentum": number,
             "rectified": bool(rectified)}  # fmt: skip
    return (x, weight, bias, running_mean, running_var, rate, batches, added), attrs


def _infer(
    x: Spec, weight: Spec | None, bias: Spec | None, running_mean: Spec | None,
    running_var: Spec | None, rate: Spec | None, batches: Spec | None, added: Spec | None,
    groups: int, eps: float, momentum: float, rectified: bool,
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
    if rectified and groups:
        raise ShapeError(message(who, f"{groups} groups, rectified", "one weight per team"))
    if added is not None and (added != x or not rectified):
        expected = "what is added like x, and rectified"
        raise ShapeError(message(who, f"{x} and {added}, rectified={rectified}", expected))
    wide = Spec((layout_of(x, groups).teams,), DTYPES[x.dtype].wide)
    if running_mean is None or running_var is None:
        return x, wide, wide
    moved = (running_mean, running_var)
    return x, wide, wide, *(moved if batches is None else (*moved, batches))


def _axes(x: Any, groups: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The shape with one axis per part of the layout, the team's axes, and a weight's shape."""
    count, channels = x.shape[:2]
    length = math.prod(x.shape[2:])
    if not groups:
        return (count, channels, length), (0, 2), (channels, 1)
    runs = channels // groups
    return (count, groups, runs, length), (2, 3), (groups, runs, 1)


def _reference(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, rate: Any, batches: Any,
    added: Any, groups: int, eps: float, momentum: float, rectified: bool,
) -> Any:  # fmt: skip
    shape, over, channels = _axes(x, groups)
    lines = widened(x).reshape(shape)
    mean = lines.mean(over, keepdims=True)
    variance = np.square(lines - mean).mean(over, keepdims=True)
    out = (lines - mean) / np.sqrt(variance + lines.dtype.type(eps))
    out = out if weight is None else out * widened(weight).reshape(channels)
    out = out if bias is None else out + widened(bias).reshape(channels)
    out = out if added is None else out + widened(added).reshape(shape)
    out = np.where(out < 0, 0, out) if rectified else out
    results = (out.reshape(x.shape), mean.reshape(-1), variance.reshape(-1))
    if running_mean is None:
        return results
    size = lines.size // max(1, mean.size)
    share = lines.dtype.type(momentum) if rate is None else widened(rate)
    moved = tuple(
        widened(running) * (1 - share) + batch * share * factor
        for running, batch, factor in (
            (running_mean, results[1], 1.0),
            (running_var, results[2], size / (size - 1)),
        )
    )
    return *results, *moved, *(() if batches is None else (batches + 1,))


def _formula(
    x: Any, weight: Any, bias: Any, added: Any, groups: int, eps: float, rectified: bool
) -> tuple[Any, Any, Any]:
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
    out = out if added is None else ag.add(out, ag.reshape(added, shape))
    values = ag.reshape(ag.relu(out) if rectified else out, x.shape)
    values = values if values.dtype == x.dtype else ag.astype(values, x.dtype)
    return values, ag.reshape(mean, (-1,)), ag.reshape(variance, (-1,))


def _by_formula(saved: Saved, grads: Sequence[Any]) -> Sequence[Any]:
    """The gradients of x, weight, bias and what was added, recorded if the grad mode is on."""
    record, inputs = ag.is_grad_enabled(), (*saved.inputs[:3], saved.inputs[7])
    if not record:
        inputs = tuple([None if x is None else x.detach().requires_grad_() for x in inputs])
    needs = (*saved.needs[:3], saved.needs[7])
    needs = needs if grads[0] is not None else (saved.needs[0], False, False, False)
    wanted = [x for x, need in zip(inputs, needs, strict=True) if need]
    with ag.enable_grad():
        groups, eps, rectified = (saved.attrs[name] for name in ("groups", "eps", "rectified"))
        x, weight, bias, added = inputs
        results = _formula(x, weight, bias, added, groups, eps, rectified)
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
    x, weight, bias, added = _gradients(saved, (grad, mean, variance))
    return [x, weight, bias, None, None, None, None, added]


def _gradients(saved: Saved, grads: Sequence[Any]) -> Sequence[Any]:
    grad, *moments = grads
    if ag.is_grad_enabled() or grad is None or any(moment is not None for moment in moments):
        return _by_formula(saved, grads)
    x, weight, bias, *_, added = saved.inputs
    operands = x, weight, bias, added
    if not grad.size:  # no kernel: there are no teams
        return [None if operand is None else _zeros(operand) for operand in operands]
    mean, variance = saved.outputs[1:3]
    affine = weight if weight is not None else bias
    sums = affine.dtype if True in saved.needs[1:3] else ""
    eps, groups, rectified = (saved.attrs[name] for name in ("eps", "groups", "rectified"))
    below = (bias if rectified else None, rectified, added)
    given = NORM_RUNS_BACKWARD(x, grad, mean, variance, weight, groups, eps, sums, *below)
    results = list(given) if isinstance(given, tuple) else [given]
    passed = results.pop() if added is not None else None
    results = [*results, *[None] * (3 - len(results)), passed]
    needs = (*saved.needs[:3], saved.needs[7])
    return [result if need else None for result, need in zip(results, needs, strict=True)]


# -- its gradient ----------------------------------------------------------------------------


def _bind_backward(
    x: Any, grad: Any, mean: Any, variance: Any, weight: Any, groups: int, eps: float, sums: str,
    bias: Any = None, rectified: bool = False, added: Any = None,
) -> Any:  # fmt: skip
    attrs = {"groups": operator.index(groups), "eps": float(eps), "sums": str(sums),
             "rectified": bool(rectified)}  # fmt: skip
    return (x, grad, mean, variance, weight, bias, added), attrs


def _infer_backward(
    x: Spec, grad: Spec, mean: Spec, variance: Spec, weight: Spec | None, bias: Spec | None,
    added: Spec | None, groups: int, eps: float, sums: str, rectified: bool,
) -> Any:  # fmt: skip
    if grad != x:
        raise ShapeError(message(BACKWARD, f"{x} and {grad}", "equal shapes and dtypes"))
    channel = Spec(x.shape[1:2], sums)
    results = (x, *((channel, channel) if sums else ()), *(() if added is None else (x,)))
    return results if len(results) > 1 else x


def _reference_backward(
    x: Any, grad: Any, mean: Any, variance: Any, weight: Any, bias: Any, added: Any, groups: int,
    eps: float, sums: str, rectified: bool,
) -> Any:  # fmt: skip
    shape, over, channels = _axes(x, groups)
    lines, g = widened(x).reshape(shape), widened(grad).reshape(shape)
    kept = tuple(1 if i in over else size for i, size in enumerate(shape))
    scale = 1 / np.sqrt(variance.reshape(kept) + lines.dtype.type(eps))
    h = (lines - mean.reshape(kept)) * scale
    if rectified:
        out = h if weight is None else h * widened(weight).reshape(channels)
        out = out if bias is None else out + widened(bias).reshape(channels)
        g = np.where((out if added is None else out + widened(added).reshape(shape)) <= 0, 0, g)
    inner = g if weight is None else g * widened(weight).reshape(channels)
    along = h * (inner * h).mean(over, keepdims=True)
    dx = (scale * (inner - inner.mean(over, keepdims=True) - along)).reshape(x.shape)
    rest, terms = (0, len(shape) - 1), (g * h, g) if sums else ()
    totals = [tree_sum(term, rest, term.dtype).reshape(-1) for term in terms]
    results = (dx, *totals, *(() if added is None else (g.reshape(x.shape),)))
    return results if len(results) > 1 else dx


NORM_RUNS_BACKWARD: Final = Operator(
    name=BACKWARD,
    bind=_bind_backward,
    infer=_infer_backward,
    reference=_reference_backward,
    implementations=(Implementation(BACKWARD, "group per team", _plan_backward),),
    doc="norm_runs_backward(x, grad, mean, variance, weight, groups, eps, sums, bias=None, "
    "rectified=False, added=None): the gradient of x and, in the dtype that `sums` names, those of "
    "weight and bias. Of what was rectified they are those of elements above 0, and with `added` "
    "there is one of that.",
)
NORM_RUNS: Final = Operator(
    name=FORWARD,
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(0, 1, 2, 7),
    saves_results=(1, 2),
    implementations=(Implementation(FORWARD, "group per team", _plan),),
    parts=(NORM_RUNS_BACKWARD,),
    doc="norm_runs(x, weight, bias, groups, eps, running_mean=None, running_var=None, momentum=0, "
    "batches=None, rectified=False, added=None): x (N, C, ...) standardised per channel or, with "
    "groups > 0, per group of channels; the mean and variance of each; and the running ones, moved "
    "towards these, with how many batches moved them. Values below 0, with what is `added`, are 0 "
    "if `rectified`.",
)

# -- the pattern -----------------------------------------------------------------------------


def _result(number: int) -> MatchedOp:
    """A result of the norm of a batch that moves running statistics and is counted."""
    operands = ("x", "weight", "bias", "running_mean", "running_var", None, "batches")
    attrs = (("groups", 0), ("rectified", False), ("eps", Captured("eps")),
             ("momentum", Captured("momentum")))  # fmt: skip
    return MatchedOp(FORWARD, operands, attrs, number)


def _rectified(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, batches: Any, eps: Any,
    momentum: Any, added: Any = None,
) -> Any:  # fmt: skip
    if added is not None and (added.shape, added.dtype) != (x.shape, x.dtype):
        return None
    values, _, _, *moved = NORM_RUNS(
        x, weight, bias, 0, eps, running_mean, running_var, momentum, batches, True, added
    )
    return values, *moved


_NORM: Final = _result(0)
_MOVED: Final = (_result(3), _result(4), _result(5))
_DOC: Final = "in training, whose norm alone is computed again for the gradient."


PATTERNS: Final = (
    TrainingPattern(
        "batch_norm_relu",
        (MatchedOp("relu", (_NORM,)), *_MOVED),
        _rectified,
        templates=(TEMPLATE, COLUMNS),
        parts=(NORM_RUNS,),
        doc=f"relu(batch_norm(x)) {_DOC}",
    ),
    TrainingPattern(
        "batch_norm_add_relu",
        (MatchedOp("relu", (MatchedOp("add", (_NORM, "added")),)), *_MOVED),
        _rectified,
        templates=(TEMPLATE, COLUMNS),
        parts=(NORM_RUNS,),
        doc=f"relu(batch_norm(x) + added) {_DOC}",
    ),
)
