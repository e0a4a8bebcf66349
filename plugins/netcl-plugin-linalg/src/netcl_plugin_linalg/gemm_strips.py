"""Products of a few rows with a matrix, on GPUs: strips of the matrix, each read once.

A work-group takes some lines of the long operand and a slice of the inner dimension; the other
operand, with up to 32 lines, stands in local memory. What such a product has to read of the matrix
comes from the cache or the memory once, and in as many work-groups as the device has units.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, final

from netcl_core import DTYPES, ZEROS_BYTES, Device, Kernel, Kernels
from netcl_core.autograd import Request, Requirements
from netcl_plugin_linalg.gemm import INT_MAX, Product

TEMPLATE: Final = "linalg/gemm_strip.cl.j2"
#: What it takes to add up the slices in the launch that makes them.
FENCE: Final = Requirements(compiles="linalg/device_fence.cl.j2", standard="CL3.0")
_QUAD: Final = 4
#: Bytes of local memory that a work-group takes at most: OpenCL on NVIDIA's devices grants 48 KiB.
_LOCAL: Final = 40 << 10
#: Terms of a slice at least, and how many slices at most.
_SHORTEST: Final = 64
_SLICES: Final = 16
#: Work-items of a group.
_ITEMS: Final = 256


@final
@dataclass(frozen=True, slots=True)
class Strip:
    """What a work-group computes: all rows of `lines` lines, of one of `slices` slices.

    An item has `wide` lines, and `share` items share their terms; so many that adjoin along the
    inner dimension (`near`) follow each other.
    """

    lines: int
    wide: int
    share: int
    near: int
    slices: int

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.lines // self.wide * self.share

    def __str__(self) -> str:
        return f"{self.lines}/{self.wide} x {self.share}/{self.near} x {self.slices}"


def strip_of(device: Device, product: Product, dot: bool, size: int = 4) -> Strip:
    """Strips that occupy the device, and slices where there are too few of them."""
    batch, units = math.prod(size for size, _, _ in product.batch), device.compute_units
    quads = -(-product.inner // _QUAD)
    # With few rows there is little to add up, and narrow strips do without slices.
    least, wanted = (8 if dot else 16, units) if product.rows <= _QUAD else (32, units / 8)
    lines, slices = min(64, 1 << (product.columns - 1).bit_length()), 1
    while lines > least and batch * -(-product.columns // lines) < wanted:
        lines //= 2
    strips = batch * -(-product.columns // lines)
    if strips < (0.25 if product.rows <= _QUAD else 0.75) * units:
        slices = max(1, min(_SLICES, round(units / strips), product.inner // _SHORTEST))
    wide = min(lines, 4 if product.rows * size <= 80 else 2)
    share = _ITEMS * wide // lines
    while share > 1 and share > quads // slices:
        share //= 2
    return Strip(lines, wide, share, min(share, 8) if dot else 1, slices)


def fitted(strip: Strip, device: Device, size: int) -> Strip:
    """A strip with work-groups and local memory that the device has, for elements of `size`."""
    items, lines, share = device.max_work_group_size, strip.lines, strip.share
    most = _most(device, size)
    while share > 1 and (lines // strip.wide * share > items
                         or share * (lines + strip.wide) > most):  # fmt: skip
        share //= 2
    while lines > strip.wide and (lines // strip.wide > items or lines + strip.wide > most):
        lines //= 2
    return replace(strip, lines=lines, share=share, near=math.gcd(strip.near, share))


def strips(
    request: Request, product: Product, turned: bool, bias: bool, wanted: Strip | None = None
) -> Kernels:
    """The launch of a product whose rows are the short operand's; `turned` stores it transposed."""
    device, dtype = request.device, DTYPES[request.output.dtype]
    dot = product.b_inner == 1 and not (product.b_column == 1 and product.columns > 1)
    size = 8 if dtype.compute in ("double", "long") else 4
    strip = fitted(wanted or strip_of(device, product, dot, size), device, size)
    count = math.prod(size for size, _, _ in product.batch)
    tiles = count * -(-product.columns // strip.lines)
    slices = strip.slices
    if slices > 1 and (tiles * 4 > ZEROS_BYTES or FENCE.unmet_everywhere(device) is not None):
        slices = 1
    length = -(-product.inner // (slices * _QUAD)) * _QUAD
    slices = -(-product.inner // length)
    b_step = product.b_column if dot else product.b_inner
    largest = max(product.rows, product.inner, product.columns, product.a_row, product.a_inner,
                  b_step, tiles * slices)  # fmt: skip
    rows = product.rows if product.rows <= 2 else -(-product.rows // _QUAD) * _QUAD
    index = "int" if largest < INT_MAX else "long"
    context: dict[str, Any] = {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "mask": request.output.dtype == "bool",
        "index": index,
        "bias": bias,
        "turned": turned,
        "dot": dot,
        "group": strip.items,
        **asdict(strip),
        "slices": slices,
        **_held(strip, rows, length, _most(device, size)),
        **_units(request, product, strip, dot, turned),
        "batch_dims": len(product.batch),
    }
    numbers: list[tuple[str, Any]] = [(index, number) for number in (
        product.rows, product.columns, product.inner, product.a_row, product.a_inner, b_step,
        length)]  # fmt: skip
    numbers += [("ulong", product.a_start), ("ulong", product.b_start)]
    numbers += [("ulong", number) for triple in product.batch for number in triple]
    sliced: list[tuple[str, Any]] = [("scratch", 0), ("zeros", 0)] if slices > 1 else []
    buffers = [("in", 0), ("in", 1), *sliced, *([("in", 2)] if bias else []), ("out", 0)]
    launch = Kernel(TEMPLATE, "gemm_strip", request.slots.args(buffers, numbers),
                    (tiles * slices * strip.items,), (strip.items,), context)  # fmt: skip
    if slices == 1:
        return Kernels((launch,))
    scratch = tiles * slices * rows * strip.lines * size
    return Kernels((replace(launch, standard=FENCE.standard),), (scratch,))


def _most(device: Device, size: int) -> int:
    """Elements of `size` bytes that a group has in local memory at most."""
    return min(_LOCAL, device.local_mem_bytes - 64) // size


def _held(strip: Strip, rows: int, length: int, most: int) -> dict[str, Any]:
    """What stands in local memory: terms of the short operand, then sums, of `together` rows."""
    chunk = max(_QUAD, min(_coarse(length), (most // rows - _QUAD) // _QUAD * _QUAD))
    pitch = chunk + _QUAD * (chunk // _QUAD % 2 == 0)  # an odd number of quads
    line = (strip.lines + strip.wide) * strip.share  # of a row's sums
    together = max(n for n in range(1, rows + 1) if rows % n == 0 and (n == 1 or n * line <= most))
    helpers = 1
    while (2 * helpers * together * strip.lines <= strip.items
           and strip.share % (2 * helpers) == 0):  # fmt: skip
        helpers *= 2
    held = -(-max(rows * pitch, together * line) // _QUAD) * _QUAD
    return {"rows": rows, "whole": length <= chunk, "chunk": chunk, "pitch": pitch, "held": held,
            "together": together, "helpers": helpers}  # fmt: skip


def _units(
    request: Request, product: Product, strip: Strip, dot: bool, turned: bool
) -> dict[str, Any]:
    """How many elements are read at once, and what the slots need.

    All places are multiples of so many, and so is the end of a line, which cuts none off. Places
    do not count for an operand that is computed.
    """
    strides = [step for _, *pair in product.batch for step in pair]
    short = (product.a_row, product.a_start, *strides[::2])
    long = (product.b_column if dot else product.b_inner, product.b_start, *strides[1::2])
    computed = request.slots.prologue is not None
    x_unit = _unit(product.inner, *(() if computed and not turned else short))
    unit = _unit(product.inner if dot else product.columns, *(() if computed and turned else long))
    even = _unit(*short, *long, product.columns) == _QUAD
    return {
        "x_unit": x_unit if product.a_inner == 1 else 1,
        "x_turned": product.a_inner != 1 and product.a_row == 1,
        "unit": min(unit, _QUAD if dot else strip.wide),
        "edge_inner": product.inner % _QUAD != 0,
        **request.slots.context(_QUAD, even),
    }


def _coarse(length: int) -> int:
    """At least so many terms, in four steps from one power of two to the next, for the same end."""
    step = max(_QUAD, 1 << max(0, (length - 1).bit_length() - 3))
    return -(-length // step) * step


def _unit(*steps: int) -> int:
    """How many elements may be read at once at places that are multiples of these."""
    return next(unit for unit in (4, 2, 1) if not any(step % unit for step in steps))
