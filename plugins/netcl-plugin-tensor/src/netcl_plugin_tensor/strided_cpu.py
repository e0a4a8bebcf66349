"""Strided copies on CPUs: row by row, or several side by side where neighbours lie across them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from netcl_core import DTYPES, Device, Kernel
from netcl_core.autograd import Geometry, Request, Settings, Space
from netcl_plugin_tensor.views import BITS, class_of, is_whole, merged, other_than_whole

TEMPLATE: Final = "tensor/strided.cl.j2"
#: Elements that one work-item copies at least, where nothing is tuned.
_CHUNK: Final = 1024
#: Rows that are copied side by side where a row's elements lie apart, but those of neighbouring
#: rows do not: so many of them share a line of the cache.
_TILE: Final = 8
PLAIN: Final[Settings] = {"chunk": _CHUNK, "tile": 1}


def copy(
    dtype: str, source: Geometry, target: Geometry, buffers: Any, settings: Settings
) -> Kernel:
    """A launch that copies a view of the first buffer to one of the second, of the same shape."""
    if is_whole(target):
        return _between_rows(dtype, source, "gather", buffers, **settings)
    if is_whole(source):
        return _between_rows(dtype, target, "scatter", buffers, **settings)
    return _between_views(dtype, source, target, buffers)


def _between_rows(
    dtype: str, view: Geometry, entry: str, buffers: Any, chunk: int, tile: int
) -> Kernel:
    """Between a contiguous tensor and a view: `gather` from it or `scatter` to it."""
    shape, strides, offset = merged(view)
    *outer, length = shape
    rows = math.prod(outer)
    per_item = max(tile, chunk // length)
    step = strides[-1]
    numbers: list[tuple[str, int]] = [
        ("ulong", rows), ("ulong", length), ("ulong", per_item), ("long", offset), ("long", step)
    ]  # fmt: skip
    for size, stride in zip(outer, strides, strict=False):  # all but the last stride
        numbers += [("ulong", size), ("long", stride)]
    context = {"bits": BITS[DTYPES[dtype].itemsize], "outer": len(outer), "contiguous": step == 1}
    context["tile"] = tile
    return Kernel(TEMPLATE, entry, (*buffers, *numbers), (-(-rows // per_item),), None, context)


def _between_views(dtype: str, source: Geometry, target: Geometry, buffers: Any) -> Kernel:
    *outer, length = target.shape or (1,)
    rows = math.prod(outer)
    per_item = max(1, _CHUNK // length)
    numbers: list[tuple[str, int]] = [("ulong", rows), ("ulong", length), ("ulong", per_item)]
    numbers += [("long", source.offset), ("long", (source.strides or (1,))[-1])]
    numbers += [("long", target.offset), ("long", (target.strides or (1,))[-1])]
    for size, first, second in zip(outer, source.strides, target.strides, strict=False):
        numbers += [("ulong", size), ("long", first), ("long", second)]
    context = {"bits": BITS[DTYPES[dtype].itemsize], "outer": len(outer)}
    args = (*buffers, *numbers)
    items = (-(-rows // per_item),)
    return Kernel("tensor/strided_pair.cl.j2", "copy_views", args, items, None, context)


def space(views_of: Callable[[Request], tuple[Geometry, Geometry]]) -> Space:
    """How much a work-item copies, and how many rows side by side; one view is contiguous."""
    last: tuple[Request | None, Geometry] = (None, Geometry((), (), 0))

    def copied(request: Request) -> Geometry:
        """The other view of a request, of which all three functions are asked in turn."""
        nonlocal last
        asked, view = last
        if asked is not request:
            view = other_than_whole(*views_of(request))
            last = request, view
        return view

    def default(request: Request) -> Settings:
        return _settings(copied(request))

    def fits(request: Request, settings: Settings) -> str | None:
        few = settings["tile"] > max(1, _rows(copied(request)))
        return "there are fewer rows" if few else None

    choices = {"chunk": (64, 256, 1024, 4096, 16384), "tile": (1, 4, 8, 16, 32)}
    return Space(choices, default, fits, lambda request: class_of(request, copied(request)))


def settings(device: Device, source: Geometry, target: Geometry) -> Settings:
    """Rows side by side where neighbours lie across them; one of the two is contiguous."""
    return _settings(other_than_whole(source, target))


def _settings(view: Geometry) -> Settings:
    across = is_across(view) and _rows(view) >= _TILE
    return {"chunk": _CHUNK, "tile": _TILE if across else 1}


def _rows(view: Geometry) -> int:
    return math.prod(view.shape[:-1])


def is_across(view: Geometry) -> bool:
    """Whether neighbours in memory are in neighbouring rows and not in one."""
    *_, before, last = (0, *map(abs, view.strides))
    return 0 < before < last
