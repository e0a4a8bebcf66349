"""The launches of cross entropy by rows: losses, their gradient, or both in one pass."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from netcl_plugin_fusion.inline import inlined, with_functions
from netcl_plugin_tensor.reducing import SUM, reduction_kernels, row_teams

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import AutogradPrimitive, Request
from netcl_plugin_losses.class_mean import total_kernels
from netcl_plugin_losses.classes import INDICES, class_axis

TEMPLATE: Final = "losses/cross_entropy.cl.j2"
TEAMS: Final = "losses/cross_entropy_teams.cl.j2"
#: So many logits of rows one after the other are an item's work on CPUs, and a team's on GPUs.
_RUN: Final = {"cpu": 8192, "gpu": 4096}
#: So many logits are one item's work on CPUs: another launch costs more than another core gains.
_ALONE: Final = 4096
#: So many rows of a team, one after the other, take a GPU no longer than two launches more.
_FEW: Final = 4
#: So many pieces of work there are for each core at least, if there are rows enough.
_PER_CORE: Final = 16


def plan_rows(request: Request) -> Kernels:
    """The loss of each row."""
    return Kernels((_kernel("cross_entropy_rows", request, request.output, [("out", 0)], 1),))


def plan_backward(request: Request) -> Kernels:
    """The gradient from that of each row, or of all."""
    _, target, upstream, *_ = request.inputs
    flags = {"averaged": request.given[4], "shared": upstream.shape != target.shape}
    entry = "cross_entropy_rows_backward"
    return Kernels((_kernel(entry, request, request.output, [("out", 0)], 1, **flags),))


def plan_one_pass(request: Request) -> Kernels:
    """The sum or mean of the losses, and the gradient of that, which is output 1.

    One launch does for a few rows. Else it is known first by what a mean is divided, from the
    targets alone, and sums of rows are added up at the end.
    """
    entry, device = "cross_entropy_one_pass", request.device
    averaged = request.attrs["reduction"] == "mean"
    alone = _rows_of_a_team_alone(request)
    if alone:
        outs = [("out", 0), ("out", 1)]
        kernel = _kernel(entry, request, request.output, outs, alone, averaged, alone=True)
        return Kernels((kernel,))
    x, target, *weights = request.inputs
    wide = DTYPES[x.dtype].wide
    kernels, kept = Kernels(()), []
    if averaged:
        weight, ignored = weights[0] if weights else None, request.attrs["ignore_index"]
        kept = [("scratch", 0)]
        counted = total_kernels(device, target, weight, wide, ignored)
        kernels = Kernels((), (DTYPES[wide].itemsize,)).then(counted, {("out", 0): kept[0]})
    per_team = _rows_of_a_team(request)
    sums = Spec((-(-target.size // per_team),), wide)
    place: Any = ("scratch", len(kernels.scratch))
    rows = _kernel(entry, request, sums, [*kept, place, ("out", 1)], per_team, averaged)
    scratch = (*kernels.scratch, sums.size * DTYPES[wide].itemsize)
    finish = reduction_kernels(SUM, device, sums, (0,), request.output.dtype)
    return Kernels((*kernels.launches, rows), scratch).then(finish, {("in", 0): place})


def _rows_of_a_team_alone(request: Request) -> int:
    """How many rows each team has if one work-group passes all of them; 0: it had better not."""
    x, target = request.inputs[:2]
    _, classes, inner = class_axis(x.shape)
    if request.device.kind != "gpu":
        return target.size if x.size <= _ALONE else 0
    if inner > 1:
        return 0
    team = row_teams(request.device, classes, DTYPES[x.dtype])
    per_team = -(-target.size // (team.group // team.team))
    return per_team if per_team <= _FEW else 0


@cache
def _exponential() -> AutogradPrimitive:
    """exp, as it is spelt on each device."""
    return AutogradPrimitive("rising", lambda x, _: f"exp({x[0]})", None, arity=1)


def _rows_of_a_team(request: Request) -> int:
    """How many rows an item or a team passes, one after the other, and adds up."""
    x, target = request.inputs[:2]
    _, classes, inner = class_axis(x.shape)
    gpu = request.device.kind == "gpu"
    if gpu and inner > 1:
        return 1
    by_size = _RUN["gpu" if gpu else "cpu"] // max(1, classes)
    by_cores = target.size // (request.device.compute_units * _PER_CORE)
    return max(1, min(by_size, by_cores))


def _kernel(
    entry: str,
    request: Request,
    out: Spec,
    buffers: list[Any],
    per_team: int,
    averaged: bool = False,
    shared: bool = False,
    alone: bool = False,
) -> Kernel:
    """One launch; `buffers` follow the inputs, and `out` is what losses are written as."""
    x, target = request.inputs[:2]
    outer, classes, inner = class_axis(x.shape)
    rows, dtype = outer * inner, DTYPES[x.dtype]
    smoothing, device = request.attrs["label_smoothing"], request.device
    rising = inlined("rising", device, (x,), [(_exponential(), ())], {}, value=0)
    slots = with_functions(request.slots, rising)
    given = [("in", i) for i in range(len(request.inputs))]
    context: dict[str, Any] = {
        "storage": dtype.storage,
        "out_storage": DTYPES[out.dtype].storage,
        "acc": dtype.compute,
        "index": INDICES[target.dtype],
        "weighted": request.given[3 if entry.endswith("_backward") else 2],
        "shared": shared,
        "alone": alone,
        "averaged": averaged,
        "smooth": smoothing != 0,
    }
    numbers: list[tuple[str, Any]] = [("ulong", rows), ("ulong", per_team), ("ulong", classes),
                                      ("ulong", inner), ("long", request.attrs["ignore_index"]),
                                      (dtype.compute, smoothing)]  # fmt: skip
    args = slots.args([*given, *buffers], numbers)
    teams = -(-rows // per_team)
    if device.kind == "gpu" and inner == 1:
        team = row_teams(device, classes, dtype)
        context |= team.context | slots.context(team.width, aligned=True)
        return Kernel(TEAMS, entry, args, (team.items(teams),), (team.group,), context)
    width = 4 if device.kind == "gpu" else 16
    context |= {"width": width, "contiguous": inner == 1, **slots.context(width)}
    return Kernel(TEMPLATE, entry, args, (teams,), None, context)
