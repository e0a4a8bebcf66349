"""Convolutions with few channels in each group on GPUs: sums over taps, without tiles."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_plugin_tensor.reducing import group_items

from netcl_core import Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_conv.conv_geometry import Problem
from netcl_plugin_conv.conv_gpu import INT_MAX, LOCAL, SUMS
from netcl_plugin_conv.conv_launch import Launcher

TEMPLATE: Final = "conv/conv_taps.cl.j2"
#: Channels of a group, each way, and taps of a line up to which this is faster than tiles that are
#: mostly empty.
_CHANNELS: Final = 4
_TAPS: Final = 16
#: Positions of a column that an item computes: they share the weights.
_ROWS: Final = 4
#: Work-groups per compute unit that a weight's gradient is divided for.
_GROUPS: Final = 8
#: Positions that each item of a part adds up at least.
_EACH: Final = 8


def unfit(request: Request, problem: Problem) -> str | None:
    """Why tiles serve a problem better, or None."""
    if problem.groups == 1 or max(problem.channels, problem.outputs) > _CHANNELS:
        return (f"{problem.groups} groups of {problem.channels} to {problem.outputs} channels; "
                "it is for few in many groups")  # fmt: skip
    taps = problem.walks[0][2].kernel
    return None if taps <= _TAPS else f"lines of {taps} taps; it is for {_TAPS} at most"


def _launcher(request: Request, problem: Problem, template: str, most: int) -> Launcher:
    largest = max(most, request.output.size, *(operand.size for operand in request.inputs))
    index = "int" if largest < INT_MAX else "long"
    return Launcher(request, problem, template, (), 1, index)


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution or a transposed one, by its walks."""
    bias = [2] if len(request.inputs) == 3 else []
    launches = list[Kernel]()
    for axes in problem.walks:
        lines = axes[0].count * -(-axes[1].count // _ROWS) * axes[2].count
        elements = problem.batch * problem.groups * problem.outputs * lines
        launcher = _launcher(request, problem, TEMPLATE, elements)
        flags = {"taps": tuple(max(1, axis.taps) for axis in axes), "rows": _ROWS,
                 "there": all(axis.taps for axis in axes), "bias": bool(bias)}  # fmt: skip
        buffers = [*launcher.operands(0, 1, *bias), launcher.result()]
        items = max(1, -(-elements // LOCAL)) * LOCAL
        launches.append(
            launcher.kernel("few", buffers, items, axes, flags, {"elements": elements},
                            request.slots, LOCAL)
        )  # fmt: skip
    return Kernels(tuple(launches))


def weights(request: Request, problem: Problem) -> Kernels:
    """The gradient of a convolution's weight, from its source and the upstream gradient."""
    (axes,), device = problem.walks, request.device
    elements = request.output.size
    extent = problem.batch * math.prod(axis.count for axis in axes)
    lines = axes[0].taps * axes[1].taps
    pairs = problem.groups * problem.outputs * problem.channels * lines
    size = 8 if request.output.dtype == "float64" else 4
    group = group_items(device, size)
    parts = max(1, min(_GROUPS * device.compute_units // pairs, extent // (_EACH * group)))
    share = -(-extent // parts)
    launcher = _launcher(request, problem, TEMPLATE, parts * elements)
    flags: dict[str, Any] = {"taps": tuple(axis.taps for axis in axes), "group": group}
    sums = launcher.scratch(0, "sums", written=True)
    buffers = [*launcher.operands(0, 1), sums]
    weigh = launcher.kernel("few_weigh", buffers, pairs * parts * group, axes, flags,
                            {"extent": extent, "share": share}, local=group)  # fmt: skip
    adds = _launcher(request, problem, SUMS, parts * elements)
    total = adds.kernel("total", [adds.scratch(0, "sums"), adds.result()],
                        -(-elements // LOCAL) * LOCAL, axes, {},
                        {"width": elements, "slices": parts, "elements": elements},
                        local=LOCAL)  # fmt: skip
    return Kernels((weigh, total), (parts * elements * size,))
