"""Adding up along the lines of a tensor at the places that an index names, one item per line.

A place that takes more than `MOST` terms is added up in double, since floats lose digits by then:
of a million equal terms 1 %. Where slices are picked as wholes such places are listed first, and
only they have a double; else every place has one.
"""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Geometry, Request
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.strided import fill, narrow

TEMPLATE: Final = "tensor/line_sums.cl.j2"
#: Terms of one place that floats add up one by one.
MOST: Final = 2048
#: So many lines that it costs little beside them to look at the index once more.
_MANY: Final = 16
#: Neighbouring lines of an item on a CPU: 64 bytes of floats.
_WIDTH: Final = 16


def line_numbers(request: Request, picked: Spec, full: Spec) -> list[tuple[str, int]]:
    """The sizes that the kernels of lines take last."""
    dim = request.attrs["dim"]
    inner, outer = math.prod(picked.shape[dim + 1 :]), math.prod(picked.shape[:dim])
    numbers = [outer, inner, picked.shape[dim], full.shape[dim], math.prod(full.shape[dim + 1 :])]
    if not request.attrs["whole"]:
        for i, size in enumerate(picked.shape):
            numbers += [size, math.prod(full.shape[i + 1 :])]
    return [("ulong", number) for number in numbers]


def line_context(request: Request, picked: Spec, full: Spec) -> dict[str, Any]:
    """What the templates of lines have in common."""
    whole, dtype = request.attrs["whole"], DTYPES[full.dtype]
    return {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "index": DTYPES[request.inputs[1].dtype].storage,
        "whole": whole,
        "dims": 0 if whole else len(picked.shape),
        "dim": request.attrs["dim"],
        "wraps": request.attrs["wraps"],
    }


def places_of_index(request: Request) -> list[tuple[str, int]]:
    """Where the numbers of an index lie, and none if no input is a view: how far apart, from where
    on."""
    layout = request.layout(1) or Geometry((), (1,))
    return [("long", layout.strides[0]), ("long", layout.offset)] if request.layouts else []


def rows_of(request: Request, picked: Spec) -> tuple[int, ...] | None:
    """Of input 0, a `picked`: from a slice to the next, from a row to the next, and the first.

    None: the elements of a row have gaps.
    """
    dim, layout = request.attrs["dim"], request.layout(0)
    sizes = (math.prod(picked.shape[:dim]), picked.shape[dim], math.prod(picked.shape[dim + 1 :]))
    if layout is None:
        return sizes[1] * sizes[2], sizes[2], 0
    flat = layout.reshaped(sizes)
    if flat is None or (sizes[2] > 1 and flat.strides[2] != 1) or min(flat.strides) < 0:
        return None
    return *flat.strides[:2], flat.offset


def _is_long(request: Request, picked: Spec, full: Spec) -> bool:
    """Whether so many terms may come to one place that floats would lose digits."""
    many = picked.shape[request.attrs["dim"]] > MOST
    return DTYPES[full.dtype].compute == "float" and many and request.device.supports_fp64


def reads_views(request: Request, picked: Spec, full: Spec) -> bool:
    """Whether `add_lines` reads rows and an index that lie apart."""
    return bool(request.attrs["whole"]) and not _is_long(request, picked, full)


def add_lines(request: Request, picked: Spec, full: Spec) -> Kernels:
    """Zeros with input 0, a `picked`, added up at the index 1, all by an item per line."""
    dtype = DTYPES[full.dtype]
    dim = request.attrs["dim"]
    lines = picked.size // picked.shape[dim]
    long = _is_long(request, picked, full)
    crowded = long and request.attrs["whole"] and lines >= _MANY
    total = "double" if long and not crowded else dtype.compute
    if dtype.compute != "float":
        total = dtype.storage
    beside = total != dtype.storage
    sums = Spec(full.shape, {"double": "float64", "float": "float32"}[total]) if beside else full
    target = ("scratch", 0) if beside else ("out", 0)
    scratch: tuple[int, ...] = (DTYPES[sums.dtype].itemsize * full.size,) if beside else ()
    launches = [fill(request.device, sums, "zeros", ("int", 0), target)]
    buffers: tuple[Any, ...] = (("in", 0), ("in", 1), target)
    context = {**line_context(request, picked, full), "total": total, "crowded": crowded}
    if crowded:
        places, listed, doubles = (("scratch", len(scratch) + i) for i in range(3))
        most = picked.shape[dim] // (MOST + 1)
        scratch += (4 * full.shape[dim], 4 * (most + 1), 8 * most * lines)
        numbers = (("ulong", picked.shape[dim]), ("ulong", full.shape[dim]), ("ulong", MOST))
        args = (("in", 1), places, listed, *numbers)
        launches.append(Kernel(TEMPLATE, "find_crowded", args, (1,), None, context))
        buffers += (places, listed, doubles)
    rows = rows_of(request, picked) if request.layouts else ()
    width = math.gcd(neighbours(request, picked), *(rows or ()))
    apart = [*places_of_index(request), *(("ulong", number) for number in rows or ())]
    context["apart"] = bool(apart)
    args = (*buffers, *line_numbers(request, picked, full), *apart)
    sizes = ((lines // width,), (1,)) if width > 1 else geometry.groups(request.device, lines)
    launches.append(Kernel(TEMPLATE, "add_lines", args, *sizes, {**context, "width": width}))
    if beside:
        launches.append(narrow(request.device, full, total))
    return Kernels(tuple(launches), scratch)


def neighbours(request: Request, picked: Spec) -> int:
    """Neighbouring lines of an item: as many as leave one to each core of a CPU."""
    dim = request.attrs["dim"]
    if request.device.kind != "cpu" or dim == picked.ndim - 1:
        return 1
    inner = math.prod(picked.shape[dim + 1 :]) if request.attrs["whole"] else picked.shape[-1]
    width, lines = math.gcd(_WIDTH, inner), picked.size // picked.shape[dim]
    while width > 1 and lines // width < request.device.compute_units:
        width //= 2
    return width
