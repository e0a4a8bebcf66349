"""Convolutions with few channels in each group on CPUs: sums over taps, without a product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from netcl_core import Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_conv.conv_geometry import Axis, Problem
from netcl_plugin_conv.conv_launch import Launcher, Padded

TEMPLATE: Final = "conv/conv_direct.cl.j2"
#: Output channels of a group up to which this is faster than panels that are mostly empty.
_OUTPUTS: Final = 4
#: Lines that an item computes at a time.
_ROWS: Final = 4


def suits(problem: Problem) -> bool:
    """Whether there are many groups with few output channels each."""
    return problem.groups > 1 and problem.outputs <= _OUTPUTS


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution or a transposed one, by its walks."""
    padded = Padded(request, problem)
    launches = padded.launches()
    launches += [_walk(request, problem, padded, axes) for axes in problem.walks]
    return Kernels(tuple(launches), (padded.bytes,))


def _walk(request: Request, problem: Problem, padded: Padded, axes: Sequence[Axis]) -> Kernel:
    width = _width(padded, axes)
    launcher = Launcher(request, problem, TEMPLATE, padded.sizes, width)
    bias = len(request.inputs) == 3
    buffers = [padded.buffer, *launcher.operands(1, *([2] if bias else [])), launcher.result()]
    planes = problem.batch * problem.groups * problem.outputs
    items = planes * axes[0].count
    flags = {"width": width, "rows": _ROWS, "bias": bias, "unit_step": axes[2].step == 1,
             "dense": axes[2].out_step == 1}  # fmt: skip
    return launcher.kernel("direct", buffers, items, axes, flags, slots=request.slots)


def weights(request: Request, problem: Problem) -> Kernels:
    """The gradient of a convolution's weight, from its source and the upstream gradient."""
    padded, axes = Padded(request, problem), problem.walks[0]
    width = _width(padded, axes)
    launcher = Launcher(request, problem, TEMPLATE, padded.sizes, width)
    widths = tuple(1 << bit for bit in reversed(range(width.bit_length())))
    flags = {"width": width, "widths": widths, "rows": _ROWS, "unit_step": axes[2].step == 1}
    buffers = [padded.buffer, *launcher.operands(1), launcher.result()]
    items = math.prod(request.output.shape)
    launch = launcher.kernel("direct_weigh", buffers, items, axes, flags)
    return Kernels((*padded.launches(), launch), (padded.bytes,))


def _width(padded: Padded, axes: Sequence[Axis]) -> int:
    """The widest vector that a line has the elements for."""
    return min(64 // padded.size, 1 << (axes[2].count.bit_length() - 1))
