"""The op behind all that averages or interpolates: x resampled along its last axes by tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

import netcl_core as nc
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message
from netcl_plugin_conv.tables import Resampling, ResamplingTable, table_of
from netcl_plugin_conv.window_settings import (
    CPU,
    LANES,
    OTHERS,
    in_groups,
    items_space,
    lines_space,
    sizes_of,
)
from netcl_plugin_conv.windows import floating

TEMPLATE: Final = "conv/resample.cl.j2"
NAME: Final = "resample"
#: An axis along which nothing happens, for tensors with fewer than three.
_STILL: Final = Resampling(1, 1, "nearest", scale=1.0)
#: Results that an item of a CPU takes at least.
_RESULTS: Final = 4096
_LANES: Final = LANES[0]
#: Results that an item of a GPU takes in a row.
_QUAD: Final = 4
Ways = tuple[Resampling, ...]


def _tables(ways: Ways, dtype: str, backwards: bool) -> list[ResamplingTable]:
    """One for each of three axes."""
    whole = (*(_STILL,) * (3 - len(ways)), *ways)
    return [table_of(way, DTYPES[dtype].wide, backwards) for way in whole]


def _sizes(ways: Ways, backwards: bool) -> tuple[list[int], list[int]]:
    """The sizes of what is given and of the result, along three axes."""
    whole = (*(_STILL,) * (3 - len(ways)), *ways)
    sizes, counts = [way.size for way in whole], [way.count for way in whole]
    return (counts, sizes) if backwards else (sizes, counts)


@lru_cache(maxsize=256)
def _packed(ways: Ways, wide: str, backwards: bool, device: Device) -> Tensor:
    """The tables of three axes in one tensor: starts, counts, and the weights' bits."""
    word = np.int64 if wide == "float64" else np.int32
    parts = []
    for table in _tables(ways, wide, backwards):
        parts += [table.start.astype(word), table.count.astype(word)]
        parts.append(np.ascontiguousarray(table.weights).reshape(-1).view(word))
    with nc.uncaptured():
        return Tensor.from_host(np.concatenate(parts), device)


# -- launches --------------------------------------------------------------------------------


def _plan(request: Request) -> Kernels:
    """An item takes lines of results, by way of a line of its own unless x has them as they are."""
    ways, backwards = request.attrs["ways"], request.attrs["backwards"]
    x, out = request.inputs[0], request.output
    outer, middle, last = _tables(ways, x.dtype, backwards)
    sizes, counts = _sizes(ways, backwards)
    lines = out.size // counts[2]
    rows = max(1, min(lines, request.settings["results"] // counts[2]))
    items = -(-lines // rows)
    direct = outer.is_plain and middle.is_plain
    room = sizes[2] + 2 * _LANES
    context = {"gpu": False, "direct": direct, "width": request.settings["width"]}
    scratch: tuple[Any, ...] = () if direct else (("scratch", 0),)
    nbytes = items * room * DTYPES[DTYPES[x.dtype].wide].itemsize
    kernel = _kernel(
        request, scratch, (lines, rows, room), (items,), None, {**context, **_line_form(last)}
    )
    return Kernels((kernel,), () if direct else (nbytes,))


def _plan_each(request: Request) -> Kernels:
    """An item takes a few results of a line."""
    ways, backwards, x = request.attrs["ways"], request.attrs["backwards"], request.inputs[0]
    counts, size = _sizes(ways, backwards)[1], request.output.size
    width = math.gcd(_QUAD, counts[2])
    sizes, flags = in_groups(request, size // width)
    largest = max(x.size, size + width * math.prod(sizes[1]) * flags["each"])
    index = "uint" if largest < 1 << 31 else "ulong"  # whose division takes five times as long
    taps = _tables(ways, x.dtype, backwards)[2].taps
    context = {**flags, "gpu": True, "direct": False, "width": width, "index": index, "taps": taps}
    return Kernels((_kernel(request, (), (size // counts[2], 1, 0), *sizes, context),))


def _kernel(
    request: Request, scratch: Any, split: tuple[int, ...], items: Any, local: Any, context: Any
) -> Kernel:
    ways, backwards = request.attrs["ways"], request.attrs["backwards"]
    dtype = DTYPES[request.inputs[0].dtype]
    outer, middle, _ = _tables(ways, request.inputs[0].dtype, backwards)
    sizes, counts = _sizes(ways, backwards)
    places = [(2 + outer.taps) * counts[0]]
    places.append(places[0] + (2 + middle.taps) * counts[1])
    numbers = [("ulong", n) for n in (*sizes, *counts, *places, *split)]
    args = (("in", 0), ("in", 1), ("out", 0), *scratch, *numbers)
    types = {"storage": dtype.storage, "acc": dtype.compute}
    return Kernel(TEMPLATE, NAME, args, items, local, {**types, **context})


def _widest(request: Request) -> int:
    count = _sizes(request.attrs["ways"], request.attrs["backwards"])[1][2]
    return next((width for width in LANES if count >= width), 1)


def _class_of(request: Request) -> str:
    """Which requests share settings: the sizes before and after, and the ways."""
    ways = ",".join(f"{way.mode} {way.axis.kernel if way.axis else ''}".strip()
                    for way in request.attrs["ways"])  # fmt: skip
    back = " backwards" if request.attrs["backwards"] else ""
    return f"{sizes_of(request.inputs[0])} to {sizes_of(request.output)} by {ways}{back}"


def _line_form(table: ResamplingTable) -> dict[str, Any]:
    """How a CPU takes the results of a line; past the end of x itself nothing may be read."""
    even = table.is_even
    step = table.step if even else 0
    return {
        "taps": table.taps,
        "plain": table.is_plain,
        "even": even,
        "step": step,
    }


# -- the op ----------------------------------------------------------------------------------


def _bind(x: Any, table: Any, ways: Ways, backwards: bool) -> Any:
    return (x, table), {"ways": ways, "backwards": backwards}


def _infer(x: Spec, table: Spec, ways: Ways, backwards: bool) -> Spec:
    floating(NAME, x)
    sizes = _sizes(ways, backwards)[1][3 - len(ways) :]
    return Spec((*x.shape[: x.ndim - len(ways)], *sizes), x.dtype)


def _reference(x: Any, table: Any, ways: Ways, backwards: bool) -> Any:
    values = widened(x)
    for axis, way in enumerate(ways, start=x.ndim - len(ways)):
        rows = table_of(way, values.dtype.name, backwards)
        values = np.moveaxis(_along(np.moveaxis(values, axis, -1), rows), -1, axis)
    return values


def _along(x: Any, table: ResamplingTable) -> Any:
    """Resampled along the last axis."""
    total = np.zeros((*x.shape[:-1], len(table.start)), x.dtype)
    for k in range(table.taps):
        at = np.minimum(table.start + k, x.shape[-1] - 1)
        total = np.where(k < table.count, total + table.weights[k] * x[..., at], total)
    return total


def _backward(saved: Saved, grad: Any) -> Sequence[Any]:
    return [_resampled(grad, saved.attrs["ways"], not saved.attrs["backwards"]), None]


RESAMPLE: Final = Operator(
    name=NAME,
    bind=_bind,
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(),
    saves_results=(),
    implementations=(
        Implementation(
            NAME,
            "lines by tables",
            _plan,
            CPU,
            space=lines_space((1024, 4096, 16384), _RESULTS, _widest, _class_of),
        ),
        Implementation(NAME, "results per item", _plan_each, OTHERS, space=items_space(_class_of)),
    ),
    doc="resample(x, table, ways, backwards): the last axes of x resampled, each in its way; with "
    "`backwards` the gradient of that.",
)


def _resampled(x: Any, ways: Ways, backwards: bool) -> Any:
    return RESAMPLE(x, _packed(ways, DTYPES[x.dtype].wide, backwards, x.device), ways, backwards)


def resampled(who: str, x: Any, ways: Sequence[Resampling]) -> Any:
    """x with its last axes resampled; raises DtypeError unless it is floating."""
    floating(who, x)
    if not math.prod(x.shape[x.ndim - len(ways) :]):
        given = f"x of shape {tuple(x.shape)}"
        raise ShapeError(message(who, given, "elements along the resampled axes"))
    return _resampled(x, tuple(ways), False)
