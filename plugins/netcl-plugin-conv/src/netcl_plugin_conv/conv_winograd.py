"""3 x 3 convolutions in steps of one on CPUs by minimal filtering: 16 products instead of 36."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from netcl_core import Kernels
from netcl_core.autograd import Request
from netcl_plugin_conv.conv_geometry import Axis, Problem
from netcl_plugin_conv.conv_launch import Launcher, Padded

TEMPLATE: Final = "conv/conv_winograd.cl.j2"
#: Channels of a panel.
_TILE: Final = 32
#: Tiles of two positions each way that a run has beside each other.
_RUN: Final = 8
#: Items per compute unit: each keeps its transforms where they were, in a cache.
_ITEMS: Final = 4
#: Bytes of transformed weights that are still read from a cache.
_WEIGHTS: Final = 1 << 21
#: Channels each way below which transforms cost more than they save.
_CHANNELS: Final = 16


def unfit(request: Request, problem: Problem) -> str | None:
    """Why a problem is none for this form, or None."""
    depth, *axes = problem.walks[0]
    if request.output.dtype == "float64":
        return "it computes in float32"
    if len(problem.walks) > 1 or depth.out > 1 or depth.kernel > 1 or depth.before:
        return "it is for two dimensions and a stride of 1"
    if any(axis.taps != 3 or axis.step != 1 or abs(axis.tap_step) != 1 for axis in axes):
        return "it is for kernels of 3 x 3 with a stride and a dilation of 1"
    if axes[1].count < 2 * _RUN - 1:
        return f"the result is {axes[1].count} wide, less than a run of {2 * _RUN - 1}"
    if min(problem.channels, problem.outputs) < _CHANNELS:
        return f"fewer than {_CHANNELS} channels"
    size = _bytes(problem)
    return f"{size} bytes of transformed weights" if size > _WEIGHTS else None


def _panels(problem: Problem) -> int:
    return problem.groups * -(-problem.outputs // _TILE)


def _bytes(problem: Problem) -> int:
    """The size of the transformed weights, and of the biases."""
    return _panels(problem) * (16 * problem.channels + 1) * _TILE * 4


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution, or a transposed one."""
    depth, *axes = problem.walks[0]
    wide = (depth, *(_even(axis) for axis in axes))
    problem = replace(problem, walks=(wide,))
    padded = Padded(request, problem)
    launcher = Launcher(request, problem, TEMPLATE, padded.sizes, 16)
    flags = {"tile": _TILE, "flipped": wide[2].tap_step < 0,
             "bias": len(request.inputs) == 3}  # fmt: skip
    items = _ITEMS * request.device.compute_units
    numbers = {"items": items, **{f"low{i}": _low(axis) for i, axis in enumerate(wide)}}
    packing = [*launcher.operands(1, *([2] if flags["bias"] else [])),
               launcher.scratch(1, "packed", written=True)]  # fmt: skip
    reading = [padded.buffer, launcher.scratch(1, "packed"),
               launcher.scratch(2, "room", written=True), launcher.result()]  # fmt: skip
    launches = (
        *padded.launches(),
        launcher.kernel("winograd_pack", packing, _panels(problem) * problem.channels, wide, flags),
        launcher.kernel("winograd", reading, items, wide, flags, numbers, request.slots),
    )
    room = items * 16 * _RUN * (problem.channels + _TILE) * 4
    return Kernels(launches, (padded.bytes, _bytes(problem), room))


def _low(axis: Axis) -> int:
    """Where position 0 begins to read."""
    return axis.first + min(0, axis.tap_step * (axis.taps - 1))


def _even(axis: Axis) -> Axis:
    """The same with a padded source for a whole number of tiles."""
    return replace(axis, padded=_low(axis) + 2 * -(-axis.count // 2) + 2)
