"""Picking from lines, and adding up or putting into them, where one item per line is too few.

Picking takes an item for each element. What comes to one place is added up the same way every
time. Of few indices a work-group each looks whether it is the first of its kind, and then for the
others. Of more, integers are added by atomics, whose order makes no difference; floats become
integers for that, in units that the largest of their place allows. What neither serves is sorted,
so that terms of one place are a run, of which its first item takes care.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, final

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Request
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.line_sort import plan_sort
from netcl_plugin_tensor.line_sums import places_of_index, rows_of
from netcl_plugin_tensor.strided import fill
from netcl_plugin_tensor.views import BITS

TEMPLATE: Final = "tensor/lines_gpu.cl.j2"
#: Elements up to which 32 bits count items, those of the last group included.
_INT_MAX: Final = (1 << 32) - (1 << 16)
#: Bytes of an access.
_BYTES: Final = 16
#: So many lines keep a GPU busy with an item each, and so short ones are done at once.
_MANY: Final = 1 << 14
_SHORT: Final = 8
#: Terms that one item adds up at most.
_BLOCK: Final = 1024
#: Comparisons of an index with another that are cheaper than to sort.
_COMPARED: Final = 1 << 28
#: What atomics of 64 bits need, and bits that they leave for a sum of floats.
_LONG_ATOMICS: Final = "cl_khr_int64_base_atomics"
_SUM_BITS: Final = 62
_FRACTION_BITS: Final = 24
#: Columns of an index up to which atomics are cheaper than to sort it.
_NARROW: Final = 2


@final
@dataclass(frozen=True, slots=True)
class Lines:
    """How the picked elements lie: `outer` x `count` x `inner` of them, `size` in a full line."""

    outer: int
    count: int
    inner: int
    size: int


def lines_of(request: Request, picked: Spec, full: Spec) -> Lines:
    """The lines along the axis of a request."""
    dim = request.attrs["dim"]
    outer, inner = math.prod(picked.shape[:dim]), math.prod(picked.shape[dim + 1 :])
    return Lines(outer, picked.shape[dim], inner, full.shape[dim])


def _counter(picked: Spec, full: Spec) -> str:
    return "uint" if max(picked.size, full.size) <= _INT_MAX else "ulong"


def _context(request: Request, picked: Spec, full: Spec, width: int) -> dict[str, Any]:
    attrs, dtype, whole = request.attrs, DTYPES[full.dtype], request.attrs["whole"]
    return {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "bits": BITS[dtype.itemsize],
        "index": DTYPES[request.inputs[1].dtype].storage,
        "counter": _counter(picked, full),
        "whole": whole,
        "wraps": attrs["wraps"],
        "dim": attrs["dim"],
        "dims": 0 if whole else picked.ndim,
        "width": width,
        "group": geometry.GROUP,
        "block": _BLOCK,
        "apart": bool(request.layouts),
    }


def _numbers(request: Request, picked: Spec, full: Spec) -> list[tuple[str, int]]:
    numbers: list[int] = [
        *astuple(lines_of(request, picked, full)),
        math.prod(full.shape[request.attrs["dim"] + 1 :]),
    ]
    if not request.attrs["whole"]:
        for i, size in enumerate(picked.shape):
            numbers += [size, math.prod(full.shape[i + 1 :])]
    counter = _counter(picked, full)
    return [(counter, number) for number in numbers]


def _width(request: Request, picked: Spec) -> int:
    """Neighbours that one index picks together."""
    inner = math.prod(picked.shape[request.attrs["dim"] + 1 :])
    most = _BYTES // DTYPES[picked.dtype].itemsize
    return math.gcd(most, inner) if request.attrs["whole"] else 1


def take(request: Request) -> Kernels:
    """Each item picks neighbours by one index."""
    picked, full = request.output, request.inputs[0]
    width = _width(request, picked)
    numbers = (*_numbers(request, picked, full), *places_of_index(request))
    args = (("in", 0), ("in", 1), ("out", 0), *numbers)
    sizes = geometry.groups(request.device, picked.size // width)
    context = _context(request, picked, full, width)
    return Kernels((Kernel(TEMPLATE, "take_elements", args, *sizes, context),))


def is_line_per_item(request: Request, lines: Lines) -> bool:
    """Whether there is enough to do for an item per line, or too little for anything else."""
    busy = lines.outer * lines.inner >= _MANY and not request.attrs["whole"]
    return busy or lines.count <= _SHORT


def _columns(lines: Lines, width: int) -> int:
    """How many groups share the columns of a line."""
    return -(-lines.inner // (geometry.GROUP * width))


def compares(request: Request, picked: Spec, full: Spec) -> bool:
    """Whether sums are found by comparing each number of the index with all others."""
    lines = lines_of(request, picked, full)
    compared = lines.outer * _columns(lines, _width(request, picked)) * lines.count**2
    fits = request.device.max_work_group_size >= geometry.GROUP
    return bool(request.attrs["whole"]) and compared <= _COMPARED and fits


def reads_views(request: Request, picked: Spec, full: Spec) -> bool:
    """Whether sums read rows and an index that lie apart."""
    layout = request.layout(0)
    counted = layout is None or layout.end <= _INT_MAX or _counter(picked, full) == "ulong"
    plain = by_atomics(replace(request, layouts=()), picked, full) is None
    return compares(request, picked, full) and counted and plain


def collect(request: Request, entry: str, picked: Spec, full: Spec, source: int) -> Kernels:
    """Input `source` goes to places by index 1: `add` sums it up, `put` keeps the last."""
    lines = lines_of(request, picked, full)
    if entry == "add" and compares(request, picked, full):
        rows = (rows_of(request, picked) or ()) if request.layouts else ()
        width = math.gcd(_width(request, picked), *rows)
        columns = _columns(lines, width)
        apart = [(_counter(picked, full), number) for number in rows]
        numbers = (*_numbers(request, picked, full), *places_of_index(request), *apart)
        args = (("in", source), ("in", 1), ("out", 0), *numbers)
        items = lines.outer * lines.count * columns * geometry.GROUP
        context = _context(request, picked, full, width)
        kernel = Kernel(TEMPLATE, "add_firsts", args, (items,), (geometry.GROUP,), context)
        return Kernels((kernel,))
    return _by_runs(request, entry, picked, full, source)


def by_atomics(request: Request, picked: Spec, full: Spec) -> Kernels | None:
    """Zeros with input 0 added up by integer atomics; None where they cannot, or should not.

    A sum of floats is one of integers: each term is rounded to a unit that is `_SUM_BITS` below
    the largest term of its place, less the bits that so many terms need. A first pass finds the
    exponent of the largest, and which places have an infinity or NaN.
    """
    dtype, lines = DTYPES[full.dtype], lines_of(request, picked, full)
    floats = dtype.compute == "float"
    if not floats and dtype.storage not in ("int", "long"):
        return None
    if dtype.storage != "int" and _LONG_ATOMICS not in request.device.extensions:
        return None
    bits = max(lines.count - 1, 1).bit_length()
    if (request.attrs["whole"] and lines.inner > _NARROW) or bits > _SUM_BITS - _FRACTION_BITS:
        return None
    numbers, context = _numbers(request, picked, full), _context(request, picked, full, 1)
    sizes = geometry.groups(request.device, picked.size)
    if not floats:
        first = fill(request.device, full, "zeros", ("int", 0))
        args = (("in", 0), ("in", 1), ("out", 0), *numbers)
        return Kernels((first, Kernel(TEMPLATE, "add_integers", args, *sizes, context)))
    exponents, sums, shift = ("scratch", 0), ("scratch", 1), _SUM_BITS - _FRACTION_BITS - bits
    read = (("in", 0), ("in", 1), exponents)
    units = (exponents, sums, ("out", 0), ("ulong", full.size))
    context["shift"] = shift
    return Kernels(
        (
            fill(request.device, Spec(full.shape, "int32"), "zeros", ("int", 0), exponents),
            fill(request.device, Spec(full.shape, "int64"), "zeros", ("int", 0), sums),
            Kernel(TEMPLATE, "find_exponents", (*read, *numbers), *sizes, context),
            Kernel(TEMPLATE, "add_units", (*read, sums, *numbers), *sizes, context),
            Kernel(TEMPLATE, "sums_of_units", units, *geometry.groups(request.device, full.size),
                   context),
        ),
        (4 * full.size, 8 * full.size),
    )  # fmt: skip


def _by_runs(request: Request, entry: str, picked: Spec, full: Spec, source: int) -> Kernels:
    """The places are sorted, each with where it stood: a stable sort, so that order is kept."""
    attrs, index = request.attrs, request.inputs[1]
    context = _context(request, picked, full, 1)
    places = Spec(index.shape, "int64")
    size = ("ulong", full.shape[attrs["dim"]])
    first = Kernel(TEMPLATE, "places", (("in", 1), ("scratch", 0), ("ulong", index.size), size),
                   *geometry.groups(request.device, index.size), context)  # fmt: skip
    along = 0 if attrs["whole"] else attrs["dim"]
    order = {"dim": along, "k": index.shape[along], "largest": False, "nan_first": False}
    asked = Request("sort", request.device, (places,), (places, places), order)
    sort = plan_sort(asked, full.shape[attrs["dim"]])
    lines, numbers = lines_of(request, picked, full), _numbers(request, picked, full)
    blocks = -(-lines.count // _BLOCK)
    sums = [("scratch", 3)] if entry == "add" else []
    args = (("in", source), ("scratch", 1), ("scratch", 2), *sums, ("out", 0), *numbers)
    launches = {f"{entry}_runs": picked.size}
    if entry == "add" and blocks > 1:
        launches["join_runs"] = lines.outer * blocks * lines.inner
    last = [Kernel(TEMPLATE, name, args, *geometry.groups(request.device, items), context)
            for name, items in launches.items()]  # fmt: skip
    parts = 8 * lines.outer * blocks * lines.inner  # of any dtype
    bytes_each = 8 * index.size
    moved: Any = {("in", 0): ("scratch", 0), ("out", 0): ("scratch", 1), ("out", 1): ("scratch", 2)}
    scratch = (bytes_each, bytes_each, bytes_each, *([parts] if sums else []))
    return Kernels((first,), scratch).then(sort, moved).then(Kernels(tuple(last)), {})
