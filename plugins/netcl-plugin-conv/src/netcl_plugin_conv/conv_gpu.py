"""Convolutions on GPUs: products of tiles that work-groups gather into local memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from netcl_core import Device, Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_conv.conv_geometry import Axis, Problem
from netcl_plugin_conv.conv_launch import Launcher

TEMPLATE: Final = "conv/conv_gpu.cl.j2"
#: Elements of a tile each way that one item computes.
_ITEM: Final = 4
#: Terms that are gathered at a time.
_DEPTH: Final = 16
#: Items each way of a work-group, the largest that the device can run.
_SIDES: Final = (16, 8, 4)
#: Work-groups per compute unit that a weight's gradient is split for, and terms of each at least.
_GROUPS: Final = 8
_TERMS: Final = 512


def _side(device: Device, size: int) -> int:
    """The side of a work-group that fits the device's work-groups and local memory."""

    def fits(side: int) -> bool:
        local = 2 * (side * _ITEM + 1) * _DEPTH * size
        return side * side <= device.max_work_group_size and local <= device.local_mem_bytes

    return next((side for side in _SIDES if fits(side)), _SIDES[-1])


def _flags(device: Device, axes: Sequence[Axis], compute: str) -> dict[str, Any]:
    side = _side(device, 8 if compute == "double" else 4)
    return {
        "rows": side * _ITEM, "columns": side * _ITEM, "depth": _DEPTH, "group": side * side,
        "item_rows": _ITEM, "item_columns": _ITEM,
        "taps": tuple(max(1, axis.taps) for axis in axes),
    }  # fmt: skip


def _tiles(flags: dict[str, Any], rows: int, columns: int) -> int:
    return -(-rows // int(flags["rows"])) * -(-columns // int(flags["columns"]))


def _inner(problem: Problem, axes: Sequence[Axis]) -> int:
    return problem.channels * math.prod(axis.taps for axis in axes)


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution or a transposed one, by its walks."""
    return Kernels(tuple(_walk(request, problem, axes) for axes in problem.walks))


def _walk(request: Request, problem: Problem, axes: Sequence[Axis]) -> Kernel:
    made = Launcher(request, problem, TEMPLATE, (), 1)
    flags = _flags(request.device, axes, made.compute)
    bias = len(request.inputs) == 3
    positions = problem.batch * math.prod(axis.count for axis in axes)
    groups = problem.groups * _tiles(flags, problem.outputs, positions)
    buffers = [*made.operands(0, 1, *([2] if bias else [])), made.result()]
    return made.kernel(
        "gather", buffers, groups * flags["group"], axes, {**flags, "bias": bias},
        {"terms": _inner(problem, axes)}, request.slots, flags["group"])  # fmt: skip


def weights(request: Request, problem: Problem) -> Kernels:
    """The gradient of a convolution's weight, from its source and the upstream gradient."""
    axes, device = problem.walks[0], request.device
    made = Launcher(request, problem, TEMPLATE, (), 1)
    flags, inner = _flags(device, axes, made.compute), _inner(problem, axes)
    tiles = problem.groups * _tiles(flags, problem.outputs, inner)
    positions = problem.batch * math.prod(axis.count for axis in axes)
    wanted = min(-(-_GROUPS * device.compute_units // tiles), -(-positions // _TERMS))
    numbers = {"terms": inner, "parts": max(1, wanted), "elements": request.output.size}
    group = flags["group"]
    buffers = [*made.operands(0, 1), made.scratch(0, "sums", written=True)]
    items = tiles * numbers["parts"] * group
    weigh = made.kernel("weigh", buffers, items, axes, flags, numbers, local=group)
    total = made.kernel(
        "total", [made.scratch(0, "sums"), made.result()], request.output.size, axes, flags, numbers
    )
    size = 8 if made.compute == "double" else 4
    return Kernels((weigh, total), (numbers["parts"] * request.output.size * size,))
