"""Strided copies: one pair of kernels behind permute, expand and basic indexing.

A `View` names elements of a contiguous tensor by shape, strides and offset.
`gather` copies them into a contiguous output; `scatter` writes a contiguous
input to their places in an output of zeros. Elements are copied as bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from netcl_core import Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Request

TEMPLATE: Final = "tensor/strided.cl.j2"
_BITS: Final = {"bool": "uchar", "uint8": "uchar", "float16": "ushort", "int32": "uint",
                "float32": "uint", "int64": "ulong", "float64": "ulong"}  # fmt: skip
#: Elements that one work-item copies at least.
_CHUNK: Final = 1024


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


def copy(dtype: str, view: View, entry: str, args: Any) -> Kernel:
    """A launch that copies between a contiguous tensor and a view (`gather` or `scatter`)."""
    shape, strides, offset = merged(view)
    *outer, length = shape
    rows = math.prod(outer)
    per_item = max(1, _CHUNK // length)
    step = strides[-1]
    numbers: list[tuple[str, int]] = [
        ("ulong", rows), ("ulong", length), ("ulong", per_item), ("long", offset), ("long", step)
    ]  # fmt: skip
    for size, stride in zip(outer, strides, strict=False):  # all but the last stride
        numbers += [("ulong", size), ("long", stride)]
    context = {"bits": _BITS[dtype], "outer": len(outer), "contiguous": step == 1}
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
    context = {"bits": _BITS[dtype], "outer": len(outer)}
    args = (("in", 0), ("out", 0), *numbers)
    items = (-(-rows // per_item),)
    return Kernel("tensor/strided_pair.cl.j2", "copy_views", args, items, None, context)


def gather(operator: str, view: Callable[[Spec, Any], View]) -> Implementation:
    """The implementation of an op whose output is a view of its input, copied."""

    def plan(request: Request) -> Kernels:
        source = request.inputs[0]
        found = view(source, request.attrs)
        return Kernels((copy(source.dtype, found, "gather", (("in", 0), ("out", 0))),))

    return Implementation(operator, "strided copy", plan)


def scatter(operator: str, view: Callable[[Request], View]) -> Implementation:
    """The implementation of an op that writes its input to a view of an output of zeros."""

    def plan(request: Request) -> Kernels:
        dtype = request.output.dtype
        launches = [fill(request.output, "zeros", ("int", 0))]
        if request.inputs[0].size:
            args = (("in", 0), ("out", 0))
            launches.append(copy(dtype, view(request), "scatter", args))
        return Kernels(tuple(launches))

    return Implementation(operator, "strided scatter", plan)


def fill(out: Spec, entry: str, value: tuple[str, Any]) -> Kernel:
    """A launch that sets all elements of output 0 to a number."""
    context = {"dtype": out.dtype, "value_type": value[0]}
    items = -(-out.size // _CHUNK)
    args = (("out", 0), ("ulong", out.size), ("ulong", _CHUNK), value)
    return Kernel("tensor/fill.cl.j2", entry, args, (items,), None, context)
