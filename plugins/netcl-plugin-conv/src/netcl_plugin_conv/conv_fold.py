"""Transposed convolutions to few channels on GPUs: a product, and its results added up in place.

Tiles of results would be mostly empty with three channels, as of a picture. But each element of the
source gives each tap of each channel one product: that is a matrix with a row for each of these.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Final, TypeAlias

from netcl_plugin_linalg import gemm_gpu
from netcl_plugin_linalg.gemm import Product

from netcl_core import DTYPES, Kernels
from netcl_core.autograd import NO_SLOTS, Request
from netcl_plugin_conv.conv_geometry import Problem, spread
from netcl_plugin_conv.conv_gpu import INT_MAX, LOCAL
from netcl_plugin_conv.conv_launch import Launcher

TEMPLATE: Final = "conv/conv_fold.cl.j2"
#: Output channels below which tiles of them are mostly empty, and rows of products above which a
#: product is worth it.
_OUTPUTS: Final = 16
_ROWS: Final = 16
#: Bytes of products that are added up before the next ones are made: a cache may hold them.
_CHUNK: Final = 1 << 26
#: The launches of a product, whose operands are the weight and the source.
Multiply: TypeAlias = Callable[[Request, Product], Kernels]


def unfit(request: Request, problem: Problem) -> str | None:
    """Why others serve a transposed convolution better, or None."""
    rows, positions = _sizes(problem)
    size = DTYPES[request.output.dtype].itemsize
    if problem.groups > 1 or problem.outputs >= _OUTPUTS or rows < _ROWS:
        return (f"{problem.groups} groups of {problem.outputs} output channels with {rows} taps; "
                f"it is for {_ROWS} taps of fewer than {_OUTPUTS}")  # fmt: skip
    if size < 4:
        return "products are not rounded to 16 bits before they are added up"
    if not problem.channels or rows * positions * size > _CHUNK or request.output.size > INT_MAX:
        return f"an image has {rows * positions} products; they are to fit {_CHUNK} bytes"
    return None


def _sizes(problem: Problem) -> tuple[int, int]:
    """Products of an element of the source, and elements of a channel."""
    axes = problem.walks[0]
    taps = math.prod(axis.kernel for axis in axes)
    return problem.outputs * taps, math.prod(axis.source for axis in axes)


def portable(request: Request, product: Product) -> Kernels:
    """The product by tiles in local memory."""
    settings = gemm_gpu.default_settings(request, product)
    return gemm_gpu.tiled(dataclasses.replace(request, settings=settings), product)


def folded(request: Request, multiply: Multiply = portable) -> Kernels:
    """The launches of a transposed convolution that is not `unfit`."""
    x, weight = request.inputs[:2]
    problem, strides = spread(x, weight, request.output, request.attrs)
    (axes,), (rows, positions) = problem.walks, _sizes(problem)
    size = DTYPES[request.output.dtype].itemsize
    bare = dataclasses.replace(request, inputs=(weight, x), slots=NO_SLOTS)
    count = min(problem.batch, _CHUNK // (rows * positions * size))
    image = problem.channels * positions
    bias = [2] if len(request.inputs) == 3 else []
    launcher = Launcher(request, problem, TEMPLATE, (), 1, "int")
    buffers = [launcher.scratch(0, "products"), *launcher.operands(*bias), launcher.result()]
    taps = [
        (axis.kernel, stride, -axis.tap_step) for axis, stride in zip(axes, strides, strict=True)
    ]
    kernels = Kernels((), (count * rows * positions * size,))
    for first in range(0, problem.batch, count):
        images = min(count, problem.batch - first)
        product = Product(
            rows, positions, problem.channels, 1, rows, positions, 1, ((images, 0, image),),
            b_start=first * image,
        )  # fmt: skip
        places = {("in", 0): ("in", 1), ("in", 1): ("in", 0), ("out", 0): ("scratch", 0)}
        kernels = kernels.then(multiply(bare, product), places)
        elements = images * (request.output.size // problem.batch)
        numbers = {"elements": elements, "begin": first * (request.output.size // problem.batch)}
        fold = launcher.kernel("fold", buffers, -(-elements // LOCAL) * LOCAL, axes,
                               {"taps": taps, "bias": bool(bias)}, numbers, request.slots,
                               LOCAL)  # fmt: skip
        kernels = dataclasses.replace(kernels, launches=(*kernels.launches, fold))
    return kernels
