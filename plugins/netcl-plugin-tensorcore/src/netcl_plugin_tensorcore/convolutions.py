"""Convolutions by tensor cores: which requests they serve, and the launches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias, final

from netcl_plugin_conv.conv_fold import portable
from netcl_plugin_conv.conv_geometry import DIMS, Axis, Problem, spread
from netcl_plugin_conv.conv_gpu import INT_MAX, LOCAL, SUMS
from netcl_plugin_conv.conv_launch import Buffer, Launcher
from netcl_plugin_conv.conv_tiles import SLICES, Costs, fastest
from netcl_plugin_conv.convolution import (
    CONVOLUTIONS,
    TRANSPOSED,
    WEIGHTS,
    folding,
    positions_of,
    problem_of,
    problem_of_transposed,
    problem_of_weights,
)
from netcl_plugin_linalg.gemm import Product

from netcl_core import DTYPES, Device, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Request, Requirements, Space
from netcl_plugin_tensorcore import products
from netcl_plugin_tensorcore.products import (
    INSTRUCTIONS,
    LOOPS,
    SPEEDS,
    TILES,
    TYPES,
    UNMARKED,
    WarpTile,
    multiplied,
)

TEMPLATE: Final = "tensorcore/convolutions.cl.j2"
OPERANDS: Final = "tensorcore/convolution_operands.cl.j2"
#: Output channels and terms of a group below which tiles are mostly empty, and products below
#: which the packing costs more than it gains.
_CHANNELS: Final = 16
_TERMS: Final = 16
_LEAST: Final = 1 << 29
#: Products up to which a transposed convolution multiplies zeros, too, to be one launch.
_SPREAD: Final = 1 << 33
#: How much larger than an image the tiles may be that cover it, if they are to read it as it lies.
_FILLED: Final = 1.15
#: Local memory of the launch that packs weights.
_TURNED: Final = 16384
_COSTS: Final = {
    2: Costs(start=300, launch=1 << 25, sum=500, beside=1),
    4: Costs(start=100, launch=1 << 24, sum=80, beside=1),
}
#: Of the launch that packs pixels: a work-group's items, and the bytes of its tile.
_PACKERS: Final = 256
_TILE: Final = 16384
_ARRANGERS: Final = 128
#: Of the launch that adds slices up: a work-group's items, the results that it has at most, and
#: how many sums it reads at least.
_ADDERS: Final = 256
_SUMMED: Final = 1024
_READ: Final = 2048
#: What is computed, and how far apart the source's elements are in each dimension.
Task: TypeAlias = tuple[Problem, tuple[int, ...]]


@final
@dataclasses.dataclass(frozen=True, slots=True)
class _Rated:
    """A tile and its speed, for an estimate."""

    tile: WarpTile
    speed: float

    def __str__(self) -> str:
        return str(self.tile)

    @property
    def bm(self) -> int:
        return self.tile.bm

    @property
    def bn(self) -> int:
        return self.tile.bn

    @property
    def bk(self) -> int:
        return self.tile.bk


class _Shape:
    """How a problem is laid out for tensor cores: channels in whole chunks."""

    def __init__(self, request: Request, problem: Problem, weighs: bool) -> None:
        self.size = DTYPES[request.output.dtype].itemsize
        self.problem, self.weighs = problem, weighs
        self.kernel = math.prod(axis.kernel for axis in problem.walks[0])
        self.chunk = 16 // self.size
        self.channels = _raised(max(1, problem.channels), self.chunk)
        self.above = _raised(problem.outputs, self.chunk)

    def sizes(self, axes: Sequence[Axis]) -> tuple[int, int]:
        """Columns and terms of a walk's product."""
        positions = self.problem.batch * math.prod(axis.count for axis in axes)
        inner = self.channels * math.prod(axis.taps for axis in axes)
        return (inner, positions) if self.weighs else (positions, inner)

    @property
    def largest(self) -> tuple[int, int]:
        """Columns and terms of the largest walk."""
        return max((self.sizes(axes) for axes in self.problem.walks), key=math.prod)

    @property
    def run(self) -> int:
        """Neighbours whose taps a work-group turns, 0 if those of one do not fit."""
        return min(64, _TURNED // 4 // self.kernel)

    def shared(self, slices: int) -> tuple[int, int]:
        """Neighbours whose slices a work-group adds up, and among how many items each result."""
        most = max(1, _SUMMED // self.kernel)
        run = 1 << (_READ // (self.kernel * slices)).bit_length() >> 1
        run = min(max(run, 8), most, self.channels)
        return run, max(1, min(_ADDERS // (run * self.kernel), slices))

    @property
    def products(self) -> int:
        """Of all walks, without channels that are only there to fill chunks."""
        problem = self.problem
        pairs = problem.groups * problem.outputs * problem.channels
        sizes = sum(math.prod(self.sizes(axes)) for axes in problem.walks)
        return pairs * (sizes // self.channels)

    @property
    def elements(self) -> int:
        """The most elements that a buffer has."""
        problem, axes = self.problem, self.problem.walks[0]
        source = problem.batch * problem.groups * self.channels
        source *= math.prod(axis.padded for axis in axes)
        columns, terms = self.largest
        results = problem.groups * _raised(problem.outputs, 128) * max(columns, terms + 64)
        return max(source, results)


def _raised(number: int, unit: int) -> int:
    return -(-number // unit) * unit


# -- which requests --------------------------------------------------------------------------


def plain_task(problem_of: Callable[[Request], Problem], request: Request) -> Task:
    """By the walks of a problem."""
    return problem_of(request), (1,) * DIMS


def transposed_task(request: Request) -> Task:
    """A transposed convolution in one walk, unless it is large and most terms would be zeros."""
    x, weight = request.inputs[:2]
    problem, apart = spread(x, weight, request.output, request.attrs)
    if max(apart) > 1 and _Shape(request, problem, False).products > _SPREAD:
        return plain_task(problem_of_transposed, request)
    return problem, apart


def unsuited(weighs: bool, task_of: Callable[[Request], Task], request: Request) -> str | None:
    """Why other kernels serve a request, or None."""
    problem, _ = task_of(request)
    shape = _Shape(request, problem, weighs)
    inner = problem.channels * shape.kernel
    if problem.outputs < _CHANNELS or inner < _TERMS:
        return f"groups of {problem.outputs} output channels and {inner} terms are too few"
    if shape.products < _LEAST:
        return "so few products are not worth the packing"
    if shape.elements >= INT_MAX:
        return "the sizes are no ints"
    if not shape.run:
        return f"{shape.kernel} taps are more than {_TURNED} bytes of local memory"
    misfits = [TILES[name].misfit(request) for name in SPEEDS[shape.size]]
    return None if None in misfits else misfits[-1]


def _default(
    weighs: bool, task_of: Callable[[Request], Task], request: Request
) -> Mapping[str, Any]:
    problem, _ = task_of(request)
    shape = _Shape(request, problem, weighs)
    return _chosen(shape.size, problem.outputs, *shape.largest, problem.groups, request.device,
                   request.output.dtype)  # fmt: skip


@lru_cache(maxsize=4096)
def _chosen(
    size: int, rows: int, columns: int, terms: int, groups: int, device: Device, dtype: str
) -> Mapping[str, Any]:
    request = Request("conv2d", device, (), (Spec((), dtype),), {})
    rated = [_Rated(TILES[name], speed) for name, speed in SPEEDS[size].items()]
    fitting = [tile for tile in rated if tile.tile.misfit(request) is None]
    units = device.compute_units
    return fastest(fitting or rated[-1:], rows, columns, terms, groups, units, _COSTS[size])


# -- launches --------------------------------------------------------------------------------


class _Plan:
    """The launches of one request; `instructions` are a template's macros."""

    def __init__(
        self, request: Request, task: Task, weighs: bool, tile: WarpTile, slices: int,
        instructions: str,
    ) -> None:  # fmt: skip
        problem, self.apart = task
        #: Where a tap is the only one, pixels that no position reads are not packed.
        self.hops = [axis.step if axis.kernel == 1 else 1 for axis in problem.walks[0]]
        problem = dataclasses.replace(problem, walks=tuple(map(self.hopped, problem.walks)))
        self.request, self.problem, self.tile = request, problem, tile
        self.shape = _Shape(request, problem, weighs)
        self.slices, self.instructions = slices, instructions
        size = self.shape.size
        self.word = "ushort" if size == 2 else "uint"
        #: Terms come in steps, two at least where a loop is written out twice.
        self.depth = max(tile.bk, 16 if size == 4 else 32)
        self.padded = [axis.padded for axis in problem.walks[0]]
        self.rows = _raised(problem.outputs, tile.bm)

    def hopped(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """A walk over the pixels that are packed."""
        return tuple(
            dataclasses.replace(axis, step=1, padded=axis.count) if hop > 1 else axis
            for axis, hop in zip(axes, self.hops, strict=True)
        )

    def launcher(self, template: str, width: int = 1) -> Launcher:
        return Launcher(self.request, self.problem, template, self.padded, width, "int")

    def words(self, kind: str, index: int, name: str, written: bool = False) -> Buffer:
        """A buffer of elements as they are stored."""
        return kind, index, f"__global {'' if written else 'const '}{self.word} *{name}"

    def length(self, terms: int) -> int:
        """Terms of a slice."""
        return max(self.depth, _raised(-(-terms // self.slices), self.depth))

    def pack(self, index: int, target: int, axes: Sequence[Axis], tabled: bool = False) -> Kernel:
        """The launch that packs the source, or the upstream gradient of a weight's gradient."""
        problem, source = self.problem, index == 0
        own, padded = ((problem.channels, self.shape.channels) if source else
                       (problem.outputs, self.shape.above))  # fmt: skip
        ends = [(axis.source, axis.padded, axis.before) if source else (axis.count, axis.count, 0)
                for axis in axes]  # fmt: skip
        numbers = {
            "own_channels": own, "padded_channels": padded, "behind": self.depth + self.tile.bk,
            "other_channels": self.shape.channels,
            **{f"from{i}": lower for i, (lower, _, _) in enumerate(ends)},
            **{f"to{i}": upper for i, (_, upper, _) in enumerate(ends)},
            **{f"shift{i}": shift for i, (_, _, shift) in enumerate(ends)},
            **{f"apart{i}": step for i, step in enumerate(self.apart)},
            **{f"hop{i}": hop if source else 1 for i, hop in enumerate(self.hops)},
        }  # fmt: skip
        volume = math.prod(upper for _, upper, _ in ends)
        pixels, block = self.tiled(padded)
        blocks = problem.groups * -(-padded // block)
        count = problem.batch * -(-volume // pixels) * blocks
        buffers = [self.words("in", index, "given"),
                   self.words("scratch", target, "packed", True)]  # fmt: skip
        if tabled:
            buffers.append(("scratch", target + 1, "__global int *table"))
        flags = {"size": self.shape.size, "pixels": pixels, "block": block, "local": _PACKERS,
                 "tabled": tabled, "spread": source and max(self.apart) > 1}  # fmt: skip
        return self.launcher(OPERANDS).kernel(
            "pack", buffers, count * _PACKERS, axes, flags, numbers, local=_PACKERS
        )

    def tiled(self, channels: int) -> tuple[int, int]:
        """Pixels and channels that a work-group packs: 64 pixels fill the lines that it reads."""
        elements, chunk = _TILE // self.shape.size, self.shape.chunk
        block = min(1 << (channels - 1).bit_length(), elements // 64)
        return min(elements // block, _PACKERS), max(block, chunk)

    def multiply(
        self, phase: str, axes: Sequence[Axis], buffers: Sequence[Buffer], columns: int,
        terms: int, along: bool, sliced: bool, tabled: bool, bias: bool = False,
    ) -> Kernel:  # fmt: skip
        """The launch over all tiles and slices."""
        tile, problem = self.tile, self.problem
        whole = sliced or _adjoining(axes)
        positions = columns if sliced else math.prod(axis.count for axis in axes)
        width = 4 if whole and positions % 4 == 0 else 1
        slices = max(1, -(-terms // self.length(terms)))
        flags = {
            **asdict(tile), "multiply": LOOPS[tile.groups], "width": width,
            "type": TYPES[self.request.output.dtype], "size": self.shape.size, "passes": 3,
            "a_along": along, "b_along": phase == "gather" or not tabled, "sliced": sliced,
            "bias": bias, "tabled": tabled,
            "fills": [axis.out_step for axis in axes] if self.filled(sliced) else (),
            "adjoining": whole, "instructions": self.instructions,
            "edge": bool(problem.outputs % tile.bm or columns % tile.bn),
        }  # fmt: skip
        numbers = {
            "width": columns, "terms": terms, "slice_length": self.length(terms),
            "padded_rows": self.rows, "source_channels": self.shape.channels,
            "above_channels": self.shape.above,
        }  # fmt: skip
        tiles = -(-problem.outputs // tile.bm) * -(-columns // tile.bn) * problem.groups
        slots = {} if sliced else {"slots": self.request.slots}
        kernel = self.launcher(TEMPLATE, width).kernel(
            phase,
            buffers,
            tiles * slices * tile.items,
            axes,
            flags,
            numbers,
            local=tile.items,
            **slots,
        )
        marked = tile.groups and self.instructions == INSTRUCTIONS
        return dataclasses.replace(kernel, rewrite=UNMARKED if marked else None)

    def gathered(self) -> Kernels:
        """A convolution or a transposed one, by its walks."""
        launches = [self.pack(0, 0, self.problem.walks[0])]
        packed = table = sums = 0
        for axes in self.problem.walks[: 1 if self.filled(self.sliced) else None]:
            columns, inner = self.shape.sizes(axes)
            terms = _raised(inner, self.depth)
            chunks = (terms + self.tile.bk) // self.shape.chunk
            weights = self.problem.groups * self.rows * terms
            slices = max(1, -(-terms // self.length(terms)))
            arranged = self.arranges(axes, inner)
            if arranged:
                launches.append(self.arranged(axes, terms, chunks))
                packed, table = max(packed, weights), max(table, chunks)
            launches += self.walk(axes, columns, terms, slices > 1, arranged)
            if slices > 1:
                sums = max(sums, slices * self.problem.groups * self.problem.outputs * columns)
        size = self.shape.size
        return Kernels(tuple(launches), (self.source * size, packed * size, table * 4, sums * 4))

    @property
    def source(self) -> int:
        """Elements of the packed source."""
        pixels = self.problem.batch * math.prod(self.padded)
        return pixels * self.problem.groups * self.shape.channels

    @property
    def sliced(self) -> bool:
        """Whether terms of the first walk are summed in slices."""
        terms = _raised(self.shape.sizes(self.problem.walks[0])[1], self.depth)
        return terms > self.length(terms)

    def filled(self, sliced: bool) -> bool:
        """Whether all walks but the first have no taps, so that this writes their zeros too."""
        first, *others = self.problem.walks
        taps = any(math.prod(axis.taps for axis in axes) for axes in others)
        biased = len(self.request.inputs) == 3
        begins = all(axis.taps and axis.out_first == 0 for axis in first)
        return bool(others) and begins and not (taps or biased or sliced)

    def arranges(self, axes: Sequence[Axis], terms: int) -> bool:
        """Whether the weights have to be laid out: not of single pixels, if they fill tiles."""
        whole = terms == _raised(terms, self.depth) and self.rows == self.problem.outputs
        single = self.shape.kernel == 1 and self.shape.channels == self.problem.channels
        return terms > 0 and not (whole and single)

    def arranged(self, axes: Sequence[Axis], terms: int, chunks: int) -> Kernel:
        """The launch that lays out the weights of a walk."""
        numbers = {
            "padded_channels": self.shape.channels, "padded_rows": self.rows, "terms": terms,
            "chunks": chunks,
        }  # fmt: skip
        buffers = [self.words("in", 1, "given"), self.words("scratch", 1, "packed", True),
                   ("scratch", 2, "__global int *table")]  # fmt: skip
        majors, minors = self.rows, self.shape.channels
        if not self.along:
            majors, minors = minors, majors
        groups = self.problem.groups * majors * -(-minors // self.shape.run)
        flags = {"size": self.shape.size, "a_along": self.along, "local": _ARRANGERS,
                 "run": self.shape.run, "kernel_size": self.shape.kernel}  # fmt: skip
        return self.launcher(OPERANDS).kernel(
            "arrange", buffers, groups * _ARRANGERS, axes, flags, numbers, local=_ARRANGERS
        )

    @property
    def along(self) -> bool:
        """Whether the weights of a channel adjoin term by term, so that they are packed so."""
        return self.problem.weight_channel == 1

    def walk(
        self, axes: Sequence[Axis], columns: int, terms: int, sliced: bool, arranged: bool
    ) -> list[Kernel]:
        """The launches that multiply, with weights that were `arranged` or lie as they did."""
        bias = [2] if len(self.request.inputs) == 3 else []
        launcher, problem = self.launcher(SUMS), self.problem
        read = [self.words("scratch", 0, "source")]
        if arranged:
            read += [self.words("scratch", 1, "weights"),
                     ("scratch", 2, "__global const int *table")]  # fmt: skip
        else:
            read.append(self.words("in", 1, "weights"))
        gather = partial(self.multiply, "gather", axes, columns=columns, terms=terms,
                         along=self.along, sliced=sliced, tabled=arranged)  # fmt: skip
        if not sliced:
            return [gather([*read, *launcher.operands(*bias), launcher.result()], bias=bool(bias))]
        product = gather([*read, ("scratch", 3, "__global float *sums")])
        elements = problem.groups * problem.outputs * columns
        numbers = {"width": columns, "slices": -(-terms // self.length(terms)),
                   "elements": elements}  # fmt: skip
        buffers = [launcher.scratch(3, "sums"), *launcher.operands(*bias), launcher.result()]
        finish = launcher.kernel("finish", buffers, _raised(elements, LOCAL), axes,
                             {"bias": bool(bias)}, numbers, self.request.slots, LOCAL)  # fmt: skip
        return [product, finish]

    def weighed(self) -> Kernels:
        """The gradient of a convolution's weight, from its source and the upstream gradient."""
        (axes,), problem, shape = self.problem.walks, self.problem, self.shape
        columns, terms = shape.sizes(axes)
        slices = max(1, -(-terms // self.length(terms)))
        sums = ("scratch", 0, "__global float *sums")
        nbytes = slices * problem.groups * problem.outputs * columns * 4
        if self.in_images(axes):
            kernels = Kernels((), (nbytes,))
            buffers = [self.words("in", 0, "source"), self.words("in", 1, "above"), sums]
        else:
            table, above = terms + self.depth + self.tile.bk, terms * problem.groups * shape.above
            packs = self.pack(0, 1, axes), self.pack(1, 2, axes, tabled=True)
            scratch = (nbytes, self.source * shape.size, above * shape.size, table * 4)
            kernels = Kernels(packs, scratch)
            buffers = [self.words("scratch", 1, "source"), self.words("scratch", 2, "above"),
                       ("scratch", 3, "__global const int *table"), sums]  # fmt: skip
        packed = bool(kernels.launches)
        weigh = self.multiply("weigh", axes, buffers, columns, terms, not packed, True, packed)
        launcher, (run, shares) = self.launcher(OPERANDS), shape.shared(slices)
        numbers = {"padded_channels": shape.channels, "slices": slices, "run": run,
                   "shares": shares}  # fmt: skip
        groups = problem.groups * problem.outputs * -(-problem.channels // run)
        flags = {"size": shape.size, "local": _ADDERS, "kernel_size": shape.kernel,
                 "summed": max(_SUMMED, shape.kernel)}  # fmt: skip
        buffers = [launcher.scratch(0, "sums"), launcher.result()]
        total = launcher.kernel("total", buffers, groups * _ADDERS, axes, flags, numbers,
                            local=_ADDERS)  # fmt: skip
        return dataclasses.replace(kernels, launches=(*kernels.launches, weigh, total))

    def in_images(self, axes: Sequence[Axis]) -> bool:
        """Whether images are read as they lie: single pixels, whose lines are whole chunks."""
        count = math.prod(axis.count for axis in axes)
        return (
            _single(axes)
            and count % self.shape.chunk == 0
            and count >= self.tile.bk
            and self.shape.channels == self.problem.channels
        )


def _adjoining(axes: Sequence[Axis]) -> bool:
    """Whether a walk writes every position of an image."""
    return all(axis.count == axis.out for axis in axes)


def _single(axes: Sequence[Axis]) -> bool:
    """Whether each position of an image is one pixel of the source."""
    return all(
        (axis.kernel, axis.step, axis.out_step, axis.before) == (1, 1, 1, 0)
        and {axis.source, axis.padded, axis.count} == {axis.out}
        for axis in axes
    )


def _pointwise(request: Request, task: Task, tile: WarpTile) -> Product | None:
    """The product of the weight and each image that a convolution of single pixels is.

    None: it is none, or an image's lines are no whole chunks or leave too much of a tile empty.
    """
    problem, apart = task
    (axes, *more), columns = problem.walks, math.prod(axis.out for axis in problem.walks[0])
    chunk = 16 // DTYPES[request.output.dtype].itemsize
    plain = problem.groups == 1 and not more and len(request.inputs) == 2 and set(apart) == {1}
    odd = any(size % chunk for size in (columns, problem.channels, problem.outputs))
    if not plain or odd or -(-columns // tile.bn) * tile.bn > _FILLED * columns:
        return None
    if not _single(axes):
        return None
    image = problem.channels * columns
    return Product(
        problem.outputs, columns, problem.channels, problem.weight_output, problem.weight_channel,
        columns, 1, ((problem.batch, 0, image),),
    )  # fmt: skip


def convolved(
    request: Request, task: Task, weighs: bool, tile: WarpTile, slices: int,
    instructions: str = INSTRUCTIONS,
) -> Kernels:  # fmt: skip
    """The launches of a request that is not `unsuited`."""
    product = _pointwise(request, task, tile) if slices == 1 and not weighs else None
    if product is not None:  # nothing has to be packed
        request = dataclasses.replace(request, settings={"slices": slices})
        kernels = multiplied(request, product, False, instructions, tile=tile)
        turned = {("in", 0): ("in", 1), ("in", 1): ("in", 0)}
        return Kernels(()).then(kernels, turned)
    plan = _Plan(request, task, weighs, tile, slices, instructions)
    return plan.weighed() if weighs else plan.gathered()


def _on_tensor_cores(
    operator: str, task_of: Callable[[Request], Task], weighs: bool, **slots: Any
) -> Implementation:
    def plan(request: Request) -> Kernels:
        settings = request.settings
        tile = TILES[settings["tile"]]
        return convolved(request, task_of(request), weighs, tile, settings["slices"])

    def misfit(request: Request, settings: Mapping[str, Any]) -> str | None:
        return TILES[settings["tile"]].misfit(request)

    requires = Requirements(
        device_kinds=("gpu",), dtypes=tuple(TYPES), reject=partial(unsuited, weighs, task_of),
        compiles="tensorcore/probe.cl.j2",
    )  # fmt: skip
    space = Space(
        {"tile": tuple(TILES), "slices": SLICES}, partial(_default, weighs, task_of), misfit
    )
    return Implementation(operator, "tensor cores", plan, requires, priority=2, space=space,
                          **slots)  # fmt: skip


def _multiplied(request: Request, product: Product) -> Kernels:
    """A product whose results are added up, by tensor cores where they serve it."""
    if products.unsuited(request, product) is not None:
        return portable(request, product)
    settings = products.default_settings(request, product)
    assert settings is not None  # else it is unsuited
    return multiplied(dataclasses.replace(request, settings=settings), product, False)


def _implementations() -> Sequence[Implementation]:
    implementations = list[Implementation]()
    for dims in (1, 2, 3):
        slots: dict[str, Any] = {"epilogue": True, "stretch": partial(positions_of, dims)}
        for operator, task_of, more in (
            (CONVOLUTIONS, partial(plain_task, problem_of), slots),
            (TRANSPOSED, transposed_task, slots),
            (WEIGHTS, partial(plain_task, problem_of_weights), {}),
        ):
            name = operator[dims - 1].name
            implementations.append(_on_tensor_cores(name, task_of, operator is WEIGHTS, **more))
        implementations.append(
            folding(dims, _multiplied, dtypes=("float32",), compiles="tensorcore/probe.cl.j2")
        )
    return implementations


IMPLEMENTATIONS: Final = tuple(_implementations())
