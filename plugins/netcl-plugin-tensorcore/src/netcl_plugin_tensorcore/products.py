"""Matrix products by tensor cores: which requests they serve, and the launches."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from typing import Any, Final, final

from netcl_plugin_linalg import linear, matmul
from netcl_plugin_linalg.gemm import INT_MAX, Product, columns_of, reader
from netcl_plugin_linalg.gemm_strips import FENCE
from netcl_plugin_linalg.gemm_thin import FEW, THIN, along, fits
from netcl_plugin_linalg.precision import get_float32_matmul_precision
from netcl_plugin_tensor import strided
from netcl_plugin_tensor.views import whole

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Rewrite
from netcl_core.autograd import Geometry, Implementation, Request, Requirements, Space

TEMPLATE: Final = "tensorcore/products.cl.j2"
#: The loop over the steps: by warps, or by groups of four of them.
LOOPS: Final = {False: "tensorcore/warps.j2", True: "tensorcore/warpgroups.j2"}
INSTRUCTIONS: Final = "tensorcore/ptx.j2"
#: How PTX calls a product of these dtypes.
TYPES: Final = {"float32": "tf32", "float16": "f16", "bfloat16": "bf16"}
#: Elements of 16 bits in the 16 bytes that are copied at once.
_CHUNK: Final = 8
#: How often an element of an operand has to be read for it to be worth a copy with whole chunks in
#: its lines: kernels without tensor cores take such lines as they are.
_READ: Final = 128


def _unmarked(device: Device, binary: bytes) -> bytes:
    """PTX for the target that has `wgmma`, with its marked lines as instructions."""
    text = binary.replace(b"//@@ ", b"")
    return re.sub(rb"\.target\s+sm_90\b", b".target sm_90a", text)


#: NVIDIA's OpenCL names no compute capability 9.0a; but its binaries are PTX, and it loads such.
UNMARKED: Final = Rewrite("tensorcore-unmark", "1", _unmarked)


@final
@dataclass(frozen=True, slots=True)
class WarpTile:
    """A work-group's `bm` x `bn` results, in steps of `bk`, by `wm` x `wn` warps of 32 items.

    With `groups` four warps multiply as one; `wm` is a multiple of four then, `wn` 1.
    """

    bm: int
    bn: int
    bk: int
    stages: int
    wm: int
    wn: int
    groups: bool = False

    def __str__(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk}{' groups' if self.groups else ''}"

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.wm * self.wn * 32

    def count(self, product: Product) -> int:
        """The work-groups of a product."""
        batch = math.prod(size for size, _, _ in product.batch)
        return -(-product.rows // self.bm) * -(-product.columns // self.bn) * batch

    def local_bytes(self, size: int) -> int:
        """The local memory that the stages take."""
        return self.stages * (self.bm + self.bn) * self.bk * size

    def copied(self, size: int) -> bool:
        """Whether each item has something of both operands to copy."""
        return min(self.bm, self.bn) * self.bk * size >= 16 * self.items

    def misfit(self, request: Request) -> str | None:
        """Why a device cannot run such groups on elements of this dtype, or None."""
        device, size = request.device, DTYPES[request.output.dtype].itemsize
        if self.items > device.max_work_group_size:
            return f"{device} has no work-groups of {self.items}"
        if self.local_bytes(size) > device.local_mem_bytes:
            return f"{device} has no {self.local_bytes(size)} bytes of local memory"
        if not self.copied(size):
            return f"{self.items} items have less than 16 bytes of an operand to copy"
        if self.groups and size == 4:
            return "groups of warps multiply 16-bit floats"
        return GROUPS.unmet_everywhere(device) if self.groups else None


#: What a device needs for tiles whose warps multiply by fours.
GROUPS: Final = Requirements(compiles="tensorcore/probe_groups.cl.j2", rewrite=UNMARKED)
#: So many times the results of a matrix in a tile are waste, however many matrices there are.
_EMPTY: Final = 4
#: What may be tried; 48 KB of local memory is all that there is.
TILES: Final = {
    str(tile): tile
    for tile in (
        WarpTile(128, 128, 16, 3, 2, 4),
        WarpTile(64, 128, 16, 3, 2, 4),
        WarpTile(128, 128, 32, 3, 2, 2),
        WarpTile(64, 128, 32, 4, 2, 2),
        WarpTile(64, 64, 32, 4, 2, 2),
        WarpTile(128, 256, 16, 4, 2, 4),
        WarpTile(128, 128, 32, 3, 4, 1, groups=True),
        WarpTile(128, 256, 16, 4, 8, 1, groups=True),
        WarpTile(64, 128, 32, 4, 4, 1, groups=True),
        WarpTile(64, 64, 64, 3, 4, 1, groups=True),
    )
}
#: What a tile reaches, of what the fastest does, by the bytes of an element (NVIDIA H200).
SPEEDS: Final[Mapping[int, Mapping[str, float]]] = {
    2: {"128x128x32 groups": 1.0, "64x128x32 groups": 0.7, "128x128x32": 0.75, "64x128x32": 0.65,
        "64x64x32": 0.45},
    4: {"128x128x16": 1.0, "64x128x16": 0.85},
}  # fmt: skip
#: What other tiles reach of it where rows of the first operand are stored as columns.
_TURNED: Final = {"128x128x32 groups": 0.75, "64x128x32 groups": 0.72}
#: What else takes time, in terms of a sum: a group's begin and end, and of a tile in slices their
#: counter and reading each of them.
_COSTS: Final = {2: (200, 250, 70), 4: (100, 40, 12)}
#: The part of the compute units that groups have to occupy. Of 16-bit floats small tiles are ten
#: times as fast as kernels without tensor cores, so that a third is enough.
_FILLED: Final = {2: 0.3, 4: 0.75}
#: Slices of the inner dimension of tiles that would leave units idle, and terms in one at least.
_SLICES: Final = (1, 2, 3, 4, 5, 6, 8, 11, 16)
_SHORTEST: Final = 128


def _settings(request: Request, product: Product) -> Iterator[tuple[float, dict[str, Any]]]:
    """How long tiles and slices of them should take that occupy the device, in no unit."""
    size, units = DTYPES[request.output.dtype].itemsize, request.device.compute_units
    start, counted, read = _COSTS[size]
    fenced = FENCE.unmet_everywhere(request.device) is None
    speeds = SPEEDS[size] if _along(product)[0] else {**SPEEDS[size], **_TURNED}
    for name in SPEEDS[size]:
        tile, speed = TILES[name], speeds[name]
        whole, rest = divmod(tile.count(product), units)
        empty = tile.bm * tile.bn >= _EMPTY * product.rows * product.columns
        for slices in _SLICES:
            many = slices > 1
            if many and (not fenced or not rest or product.inner < slices * _SHORTEST):
                break
            if empty or whole * units + rest * slices < _FILLED[size] * units:
                continue
            turns = -(-rest * slices // units)
            terms = whole * (product.inner + start) + turns * (product.inner / slices + start)
            terms += (counted + slices * read) * many
            yield tile.bm * tile.bn * terms / speed, {"tile": name, "slices": slices}


def default_settings(request: Request, product: Product) -> dict[str, Any] | None:
    """The fastest tile that fits, and in how many slices its last ones are multiplied, or None."""
    fitting = [
        (time, settings)
        for time, settings in _settings(request, product)
        if TILES[settings["tile"]].misfit(request) is None
    ]
    return min(fitting, key=itemgetter(0))[1] if fitting else None


def on_tensor_cores(
    operator: str,
    product_of: Callable[[Request], Product],
    row_sums: bool = False,
    passes: int = 3,
) -> Implementation:
    """The implementation of an op that is a product; a third input is its bias.

    With `row_sums` output 1 gets the sum of each row of the first operand, which is stored so that
    its rows are columns. One of `passes` is for float32 alone, and serves where
    `set_float32_matmul_precision` lets it.
    """
    rough = passes == 1

    def plan(request: Request) -> Kernels:
        bias = len(request.inputs) == 3
        kernels = multiplied(request, product_of(request), bias, passes=passes)
        return with_row_sums(request, kernels) if row_sums else kernels

    def default(request: Request) -> dict[str, Any]:
        settings = default_settings(request, product_of(request))
        assert settings is not None  # else it is rejected
        return settings

    def reject(request: Request) -> str | None:
        product = product_of(request)
        if rough and get_float32_matmul_precision() == "highest":
            return "float32 products are exact: set_float32_matmul_precision is 'highest'"
        if row_sums and not product.inner:
            return "there is nothing to add up"
        return unsuited(request, product)

    dtypes = ("float32",) if rough else tuple(TYPES)
    requires = Requirements(device_kinds=("gpu",), dtypes=dtypes, reject=reject,
                            compiles="tensorcore/probe.cl.j2")  # fmt: skip
    space = Space(
        {"tile": tuple(TILES), "slices": _SLICES},
        default,
        lambda request, settings: TILES[settings["tile"]].misfit(request),
    )
    label, priority = ("TF32", 3) if rough else ("tensor cores", 2)
    return Implementation(operator, label, plan, requires, priority=priority,
                          epilogue=not row_sums, stretch=None if row_sums else columns_of,
                          space=space,
                          reads=reader(product_of, _CHUNK))  # fmt: skip


def unsuited(request: Request, product: Product) -> str | None:
    """Why other kernels serve a product, or None."""
    size = DTYPES[request.output.dtype].itemsize
    few = FEW if size == 4 and along(product) else THIN  # else tensor cores are as fast
    if fits(product, few):
        return "it is read where it lies, by the kernels for any GPU"
    if default_settings(request, product) is None:
        names = [settings["tile"] for _, settings in _settings(request, product)]
        misfit = TILES[names[-1]].misfit(request) if names else None
        return misfit or "tiles are too few to occupy the device"
    reads = product.columns, product.rows
    if any(_in_chunks(product, i, size) and reads[i] < _READ for i in (0, 1)):
        return f"the lines of an operand are no multiples of {16 // size} elements, and read rarely"
    if max(product.rows, product.columns, product.inner, *_lines(product)) > INT_MAX:
        return "the sizes are no ints"
    return None


def _along(product: Product) -> tuple[bool, bool]:
    """Whether each operand is contiguous along the inner dimension."""
    return product.a_inner == 1, product.b_inner == 1 and product.b_column != 1


def _lines(product: Product) -> tuple[int, int]:
    """From one line of each operand to the next; along a line elements are contiguous."""
    a, b = _along(product)
    return (product.a_row if a else product.a_inner, product.b_column if b else product.b_inner)


def _in_chunks(product: Product, i: int, size: int) -> tuple[Geometry, Geometry] | None:
    """Where the lines of an operand lie, and where with whole chunks; None: they have such."""
    along, line = _along(product)[i], _lines(product)[i]
    extent = (product.rows, product.columns)[i]
    lines, length = (extent, product.inner) if along else (product.inner, extent)
    start = (product.a_start, product.b_start)[i]
    batch = [(axis[0], axis[1 + i]) for axis in product.batch if axis[1 + i]]
    chunk = 16 // size
    if not any(number % chunk for number in (line, start, *(stride for _, stride in batch))):
        return None
    sizes = tuple([count for count, _ in batch])
    shape, padded = (*sizes, lines, length), -(-length // chunk) * chunk
    source = Geometry(shape, (*(stride for _, stride in batch), line, 1), start)
    return source, whole((*sizes, lines, padded))._replace(shape=shape)


def _copied(request: Request, product: Product) -> tuple[Product, Kernels, dict[Any, Any]]:
    """A product whose lines have whole chunks, the copies that make them, and where these are."""
    kernels, places = Kernels(()), {}
    dtype = request.output.dtype
    for i, name in enumerate("ab"):
        copied = _in_chunks(product, i, DTYPES[dtype].itemsize)
        if copied is None:
            continue
        source, target = copied
        *strides, line, _ = target.strides
        along, left = _along(product)[i], iter(strides)
        fields: dict[str, Any] = {f"{name}_start": 0}
        inner, outer = f"{name}_inner", "a_row" if name == "a" else "b_column"
        fields |= {outer: line, inner: 1} if along else {outer: 1, inner: line}
        batch = []
        for size, *steps in product.batch:
            steps[i] = next(left) if steps[i] else 0
            batch.append((size, steps[0], steps[1]))
        nbytes = math.prod(target.shape[:-1]) * line * DTYPES[dtype].itemsize
        places["in", i] = scratch = ("scratch", len(kernels.scratch))
        kernels = replace(kernels, scratch=(*kernels.scratch, nbytes))
        copy = strided.copy(request.device, dtype, source, target)
        kernels = kernels.then(Kernels((copy,)), {("in", 0): ("in", i), ("out", 0): scratch})
        product = replace(product, **fields, batch=tuple(batch))
    return product, kernels, places


def multiplied(
    request: Request,
    product: Product,
    bias: bool,
    instructions: str = INSTRUCTIONS,
    passes: int = 3,
    tile: WarpTile | None = None,
) -> Kernels:
    """The launches of a product that is not `unsuited`, by the request's settings.

    `instructions` are a template's macros, and a `tile` takes the place of that of the settings.

    Floats are multiplied in two parts by three `passes`, at float32's accuracy, or rounded to TF32
    by one.
    """
    tile = tile or TILES[request.settings["tile"]]
    product, copies, places = _copied(request, product)
    dtype = DTYPES[request.output.dtype]
    a_along, b_along = _along(product)
    depth = max(tile.bk, 16 if dtype.name == "float32" else 32)  # of two products at least
    whole, rest = divmod(tile.count(product), request.device.compute_units)
    length = -(-product.inner // (request.settings["slices"] * depth)) * depth or depth
    slices = -(-product.inner // length) or 1
    sliced = slices > 1 and rest > 0
    ragged = product.rows % tile.bm or product.columns % tile.bn or product.inner % depth
    width = math.gcd(product.columns, 4)
    context = {
        **asdict(tile),
        "multiply": LOOPS[tile.groups],
        **request.slots.context(width, aligned=True),
        "width": width,
        "type": TYPES[dtype.name],
        "size": dtype.itemsize,
        "passes": passes,
        "storage": dtype.storage,
        "batch_dims": len(product.batch),
        "bias": bias,
        "sliced": sliced,
        "a_along": a_along,
        "b_along": b_along,
        "edge": bool(ragged),
        "instructions": instructions,
    }
    sizes = (product.rows, product.columns, product.inner, *_lines(product))
    numbers: list[Any] = []
    if sliced:
        whole *= request.device.compute_units
        numbers += [("ulong", whole), ("ulong", slices), ("long", length)]
    numbers += [("long", size) for size in sizes]
    numbers += [("ulong", product.a_start), ("ulong", product.b_start)]
    numbers += [("ulong", number) for triple in product.batch for number in triple]
    buffers: list[Any] = [("in", 0), ("in", 1), *([("in", 2)] if bias else []), ("out", 0)]
    scratch: tuple[int, ...] = ()
    if sliced:
        buffers += [("scratch", 0), ("zeros", 0)]
        scratch = (rest * slices * tile.bm * tile.bn * 4,)
    args = request.slots.args(buffers, numbers)
    count = whole + rest * slices if sliced else tile.count(product)
    rewrite = UNMARKED if tile.groups and instructions == INSTRUCTIONS else None
    kernel = Kernel(
        TEMPLATE,
        "tensor_products",
        args,
        (count * tile.items,),
        (tile.items,),
        context,
        standard=FENCE.standard if sliced else "CL1.2",
        rewrite=rewrite,
    )
    return copies.then(Kernels((kernel,), scratch), places)


def with_row_sums(request: Request, kernels: Kernels) -> Kernels:
    """A product's launches, and those that add up the lines of its first operand in output 1."""
    dtype, layout = request.outputs[1].dtype, request.layout(0)
    grad, device = request.inputs[0], request.device
    sums = ag.reduction_kernels(ag.SUM, device, grad, (0,), dtype, layout=layout)
    return kernels.then(sums, {("out", 0): ("out", 1)})


IMPLEMENTATIONS: Final = tuple(
    on_tensor_cores(operator, product_of, row_sums, passes)
    for operator, product_of, row_sums in (
        ("matmul", matmul.product_of, False),
        ("bmm", matmul.product_of, False),
        ("linear", linear.product_of, False),
        (linear.PARAMETER_GRADIENTS.name, linear.product_of_gradients, True),
    )
    for passes in (3, 1)
)
