"""Strided copies: one pair of kernels behind permute, expand and basic indexing.

A `View` names elements of a contiguous tensor by shape, strides and offset.
`gather` copies them into a contiguous output; `scatter` writes a contiguous
input to their places in an output of zeros. Elements are copied as bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Request, Settings, Space

TEMPLATE: Final = "tensor/strided.cl.j2"
#: What elements of so many bytes are copied as.
BITS: Final = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
#: Elements that one work-item copies at least, where nothing is tuned.
_CHUNK: Final = 1024
#: Rows that are copied side by side where a row's elements lie apart, but those of neighbouring
#: rows do not: so many of them share a line of the cache.
_TILE: Final = 8


class View(NamedTuple):
    """Elements of a contiguous tensor: strides and offset count elements, strides may be < 0."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    found = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        found[axis - 1] = found[axis] * shape[axis]
    return tuple(found)


def merged(view: View) -> View:
    """The same elements in the same order with as few dimensions as possible."""
    shape: list[int] = []
    strides: list[int] = []
    for size, stride in zip(view.shape, view.strides, strict=True):
        if size == 1:
            continue
        if shape and strides[-1] == stride * size:
            shape[-1] *= size
            strides[-1] = stride
        else:
            shape.append(size)
            strides.append(stride)
    if not shape:
        shape, strides = [1], [1]
    return View(tuple(shape), tuple(strides), view.offset)


def copy(
    dtype: str, view: View, entry: str, args: Any, chunk: int = _CHUNK, tile: int = 1
) -> Kernel:
    """A launch that copies between a contiguous tensor and a view (`gather` or `scatter`)."""
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
    return Kernel(TEMPLATE, entry, (*args, *numbers), (-(-rows // per_item),), None, context)


def copy_between(dtype: str, source: View, target: View) -> Kernel:
    """A launch that copies a view of input 0 to a view of output 0 of the same shape."""
    *outer, length = target.shape or (1,)
    rows = math.prod(outer)
    per_item = max(1, _CHUNK // length)
    numbers: list[tuple[str, int]] = [("ulong", rows), ("ulong", length), ("ulong", per_item)]
    numbers += [("long", source.offset), ("long", (source.strides or (1,))[-1])]
    numbers += [("long", target.offset), ("long", (target.strides or (1,))[-1])]
    for size, first, second in zip(outer, source.strides, target.strides, strict=False):
        numbers += [("ulong", size), ("long", first), ("long", second)]
    context = {"bits": BITS[DTYPES[dtype].itemsize], "outer": len(outer)}
    args = (("in", 0), ("out", 0), *numbers)
    items = (-(-rows // per_item),)
    return Kernel("tensor/strided_pair.cl.j2", "copy_views", args, items, None, context)


def _space(view_of: Callable[[Request], View]) -> Space:
    """How much a work-item copies, and how many rows side by side."""
    last: tuple[Request | None, View] = (None, View((), (), 0))

    def copied(request: Request) -> View:
        """The view of a request, of which all three functions are asked in turn."""
        nonlocal last
        asked, view = last
        if asked is not request:
            view = merged(view_of(request))
            last = request, view
        return view

    def default(request: Request) -> dict[str, int]:
        view = copied(request)
        across = request.device.kind == "cpu" and _is_across(view) and _rows(view) >= _TILE
        return {"chunk": _CHUNK, "tile": _TILE if across else 1}

    def fits(request: Request, settings: Settings) -> str | None:
        few = settings["tile"] > max(1, _rows(copied(request)))
        return "there are fewer rows" if few else None

    def shape_class(request: Request) -> str:
        shape, strides, _ = copied(request)
        sizes, steps = "x".join(map(_rounded, shape)), ",".join(map(_rounded, strides))
        return f"{BITS[DTYPES[request.output.dtype].itemsize]}[{sizes}] by {steps}"

    choices = {"chunk": (64, 256, 1024, 4096, 16384), "tile": (1, 4, 8, 16, 32)}
    return Space(choices, default, fits, shape_class)


def _rounded(number: int) -> str:
    """A size or stride, away from 0 to the next power of two."""
    power = 1 << (abs(number) - 1).bit_length() if number else 0
    return str(-power if number < 0 else power)


def _rows(view: View) -> int:
    return math.prod(view.shape[:-1])


def _is_across(view: View) -> bool:
    """Whether neighbours in memory are in neighbouring rows and not in one."""
    *_, before, last = (0, *map(abs, view.strides))
    return 0 < before < last


def gather(operator: str, view: Callable[[Spec, Any], View]) -> Implementation:
    """The implementation of an op whose output is a view of its input, copied."""

    def view_of(request: Request) -> View:
        return view(request.inputs[0], request.attrs)

    def plan(request: Request) -> Kernels:
        dtype, found = request.inputs[0].dtype, view_of(request)
        buffers = (("in", 0), ("out", 0))
        return Kernels((copy(dtype, found, "gather", buffers, **request.settings),))

    return Implementation(operator, "strided copy", plan, space=_space(view_of))


def scatter(operator: str, view: Callable[[Request], View]) -> Implementation:
    """The implementation of an op that writes its input to a view of an output of zeros."""

    def plan(request: Request) -> Kernels:
        dtype = request.output.dtype
        launches = [fill(request.output, "zeros", ("int", 0))]
        if request.inputs[0].size:
            buffers = (("in", 0), ("out", 0))
            launches.append(copy(dtype, view(request), "scatter", buffers, **request.settings))
        return Kernels(tuple(launches))

    return Implementation(operator, "strided scatter", plan, space=_space(view))


def narrow(out: Spec) -> Kernel:
    """A launch that rounds scratch buffer 0, of floats, to output 0."""
    dtype = DTYPES[out.dtype]
    context = {"storage": dtype.storage, "compute": dtype.compute}
    args = (("scratch", 0), ("out", 0), ("ulong", out.size), ("ulong", _CHUNK))
    return Kernel("tensor/narrow.cl.j2", "narrow", args, (-(-out.size // _CHUNK),), None, context)


def fill(
    out: Spec, entry: str, value: tuple[str, Any], buffer: tuple[str, int] = ("out", 0)
) -> Kernel:
    """A launch that sets all elements of output 0, or of another buffer, to a number."""
    dtype = DTYPES[out.dtype]
    context = {"storage": dtype.storage, "compute": dtype.compute, "value_type": value[0]}
    items = -(-out.size // _CHUNK)
    args = (buffer, ("ulong", out.size), ("ulong", _CHUNK), value)
    return Kernel("tensor/fill.cl.j2", entry, args, (items,), None, context)
