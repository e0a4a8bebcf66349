"""Convolutions on GPUs: products of tiles that work-groups gather into local memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import NO_SLOTS, Request, Space
from netcl_plugin_conv.conv_geometry import Axis, Problem
from netcl_plugin_conv.conv_launch import Buffer, Launcher
from netcl_plugin_conv.conv_tiles import SLICES, TILES, ConvTile, chosen

TEMPLATE: Final = "conv/conv_gpu.cl.j2"
ARRANGE: Final = "conv/conv_weights.cl.j2"
SUMS: Final = "conv/conv_sums.cl.j2"
#: Items of a work-group where they have nothing in common.
LOCAL: Final = 64
#: Elements up to which an int counts them, those of a last tile included.
INT_MAX: Final = (1 << 31) - (1 << 20)


def _size(request: Request) -> int:
    return 8 if DTYPES[request.output.dtype].compute == "double" else 4


def _positions(problem: Problem, axes: Sequence[Axis]) -> int:
    return problem.batch * math.prod(axis.count for axis in axes)


def _inner(problem: Problem, axes: Sequence[Axis]) -> int:
    return problem.channels * math.prod(axis.taps for axis in axes)


# -- what may be tuned -----------------------------------------------------------------------


def space(function: str, problem_of: Callable[[Request], Problem]) -> Space:
    """The tiles and slices of `gather` or `weights`."""

    def default(request: Request) -> Mapping[str, Any]:
        problem = problem_of(request)
        axes = max(problem.walks, key=lambda axes: _inner(problem, axes))
        columns, terms = _positions(problem, axes), _inner(problem, axes)
        if function == "weights":
            columns, terms = terms, columns
        size = _size(request)
        return chosen(problem.outputs, columns, terms, problem.groups, request.device, size)

    def misfit(request: Request, settings: Mapping[str, Any]) -> str | None:
        return TILES[settings["tile"]].misfit(request.device, _size(request))

    return Space({"tile": tuple(TILES), "slices": SLICES}, default, misfit)


# -- launches --------------------------------------------------------------------------------


class _Product:
    """The launches for one walk, as a product of `rows` x `width` results with `extent` terms."""

    def __init__(
        self, request: Request, problem: Problem, axes: Sequence[Axis], width: int, extent: int
    ) -> None:
        self.request, self.problem, self.axes = request, problem, axes
        self.tile: ConvTile = TILES[request.settings["tile"]]
        self.width, self.extent, tile = width, extent, self.tile
        self.length = -(-extent // (request.settings["slices"] * tile.bk)) * tile.bk or tile.bk
        self.slices = max(1, -(-extent // self.length))
        self.elements = problem.groups * problem.outputs * width
        self.padded_rows = -(-problem.outputs // tile.bm) * tile.bm
        self.padded_terms = -(-_inner(problem, axes) // tile.bk) * tile.bk
        self.packed = problem.groups * self.padded_terms * self.padded_rows
        largest = max(self.packed, self.elements * self.slices, request.output.size,
                      *(operand.size for operand in request.inputs))  # fmt: skip
        self.index = "int" if largest < INT_MAX else "long"
        # Steps within one tap where channels are enough of them; else terms in the weights' order.
        self.whole = problem.channels % tile.bk == 0
        self.size = _size(request)

    def launcher(self, template: str, width: int = 1) -> Launcher:
        return Launcher(self.request, self.problem, template, (), width, self.index)

    @property
    def taps(self) -> tuple[int, ...]:
        return tuple(max(1, axis.taps) for axis in self.axes)

    @property
    def flags(self) -> dict[str, Any]:
        tile = self.tile
        shape = {name: getattr(tile, name) for name in ("bm", "bn", "bk", "tm", "tn", "lm", "ln")}
        return {**shape, "items": tile.items, "taps": self.taps, "whole": self.whole,
                "sliced": self.slices > 1}  # fmt: skip

    @property
    def numbers(self) -> dict[str, int]:
        return {"width": self.width, "extent": self.extent, "slice_length": self.length}

    @property
    def items(self) -> int:
        tiles = self.tile.count(self.problem.outputs, self.width) * self.problem.groups
        return tiles * self.slices * self.tile.items

    def finish(self, phase: str, buffers: Sequence[Buffer], bias: bool, slots: Any) -> Kernel:
        """The launch that adds the slices up."""
        numbers = {"width": self.width, "slices": self.slices, "elements": self.elements}
        return self.launcher(SUMS).kernel(
            phase, buffers, -(-self.elements // LOCAL) * LOCAL, self.axes,
            {"bias": bias}, numbers, slots, LOCAL)  # fmt: skip

    @property
    def scratch(self) -> tuple[int, int]:
        """Bytes of the arranged weights and of the slices' sums."""
        sums = self.elements * self.slices if self.slices > 1 else 0
        return self.packed * self.size, sums * self.size


def gather(request: Request, problem: Problem) -> Kernels:
    """A convolution or a transposed one, by its walks."""
    launches, scratch = list[Kernel](), (0, 0)
    for axes in problem.walks:
        width, extent = _positions(problem, axes), _inner(problem, axes)
        product = _Product(request, problem, axes, width, extent)
        launches += _walk(product)
        scratch = max(scratch[0], product.scratch[0]), max(scratch[1], product.scratch[1])
    return Kernels(tuple(launches), scratch)


def _walk(product: _Product) -> list[Kernel]:
    launcher, request = product.launcher(TEMPLATE, 4), product.request
    bias = [2] if len(request.inputs) == 3 else []
    padded = {"padded_rows": product.padded_rows, "padded_terms": product.padded_terms}
    packed = ("scratch", 0, f"__global const {launcher.compute}4 *packed")
    sums = launcher.scratch(1, "sums")
    launches = [_arranged(product, padded)] if product.extent else []
    if product.slices > 1:
        buffers = [*launcher.operands(0), packed, launcher.scratch(1, "sums", written=True)]
        flags = {**product.flags, "even": product.width % 4 == 0}
        launches.append(
            launcher.kernel("gather", buffers, product.items, product.axes, flags,
                        product.numbers | padded, local=product.tile.items)
        )  # fmt: skip
        buffers = [sums, *launcher.operands(*bias), launcher.result()]
        return [*launches, product.finish("finish", buffers, bool(bias), request.slots)]
    buffers = [*launcher.operands(0), packed, *launcher.operands(*bias), launcher.result()]
    flags = {**product.flags, "even": _adjoining(product.axes), "bias": bool(bias)}
    launches.append(
        launcher.kernel("gather", buffers, product.items, product.axes, flags,
                    product.numbers | padded, request.slots, product.tile.items)
    )  # fmt: skip
    return launches


def _adjoining(axes: Sequence[Axis]) -> bool:
    """Whether a walk writes every position of an image, and these make whole quads."""
    all_of_it = all(axis.count == axis.out for axis in axes)
    return all_of_it and math.prod(axis.count for axis in axes) % 4 == 0


def _arranged(product: _Product, padded: Mapping[str, int]) -> Kernel:
    """The launch that lays out the weights of a walk."""
    launcher, problem = product.launcher(ARRANGE), product.problem
    elements = problem.groups * (problem.channels + 1) * product.padded_rows
    buffers = [*launcher.operands(1), launcher.scratch(0, "packed", written=True)]
    flags = {"taps": product.taps, "whole": product.whole}
    return launcher.kernel("arrange", buffers, -(-elements // LOCAL) * LOCAL, product.axes, flags,
                       {**padded, "elements": elements}, local=LOCAL)  # fmt: skip


def weights(request: Request, problem: Problem) -> Kernels:
    """The gradient of a convolution's weight, from its source and the upstream gradient."""
    (axes,) = problem.walks
    width, extent = _inner(problem, axes), _positions(problem, axes)
    product = _Product(request, problem, axes, width, extent)
    launcher = product.launcher(TEMPLATE)
    flags = {**product.flags, "even": width % 4 == 0}
    numbers = product.numbers | _steps(product.tile.bk, axes)
    whole = product.slices == 1
    target = launcher.result() if whole else launcher.scratch(0, "sums", written=True)
    weigh = launcher.kernel("weigh", [*launcher.operands(0, 1), target], product.items, axes, flags,
                        numbers, local=product.tile.items)  # fmt: skip
    if whole:
        return Kernels((weigh,))
    total = product.finish(
        "total", [launcher.scratch(0, "sums"), launcher.result()], False, NO_SLOTS
    )
    return Kernels((weigh, total), (product.scratch[1],))


def _steps(count: int, axes: Sequence[Axis]) -> dict[str, int]:
    """So many positions further: images, and elements of each dimension."""
    indices = {}
    for i in (2, 1, 0):
        each = max(1, axes[i].count)
        indices[f"ahead{i}"], count = count % each, count // each
    return {**indices, "ahead_images": count}
