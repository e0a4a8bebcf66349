"""The largest element of each window with its place, and how gradients find their way back."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message
from netcl_plugin_conv.window_settings import (
    CPU,
    LANES,
    OTHERS,
    in_groups,
    items_space,
    lines_space,
    sizes_of,
)
from netcl_plugin_conv.windows import Axes, WindowAxis, floating, padded

TEMPLATE: Final = "conv/max_pool.cl.j2"
#: Windows that an item of a CPU takes at least.
_WINDOWS: Final = 2048
#: A window may have so many elements if offsets are bytes.
_BYTE: Final = 256
#: Longer windows are read element by element: their kernel would be a long text.
_UNROLLED: Final = 16
#: Items of a group where a CPU looks for an element's windows.
_GROUP: Final = 64


def _shape(x: Any, axes: Sequence[WindowAxis], sizes: str) -> tuple[int, ...]:
    """The shape of x with other sizes along its last axes: `size` or `count` of each of them."""
    return (*x.shape[: len(x.shape) - len(axes)], *(getattr(axis, sizes) for axis in axes))


def _volume(axes: Sequence[WindowAxis]) -> int:
    return math.prod(axis.size for axis in axes)


def _offsets(axes: Sequence[WindowAxis]) -> str:
    return "uint8" if math.prod(axis.kernel for axis in axes) <= _BYTE else "int32"


def _sizes(given: Sequence[WindowAxis]) -> list[tuple[str, int]]:
    axes = padded(given)
    sizes = [axis.size for axis in axes] + [axis.count for axis in axes]
    return [("ulong", n) for n in (*sizes, *(axis.padding for axis in axes))]


def _context(x: Spec, axes: Sequence[WindowAxis]) -> dict[str, Any]:
    dtype = DTYPES[x.dtype]
    return {
        "storage": dtype.storage,
        "acc": dtype.compute,
        "offsets": DTYPES[_offsets(axes)].storage,
        "axes": tuple((a.kernel, a.stride, a.dilation, a.adaptive) for a in padded(axes)),
    }


def _width(axes: Sequence[WindowAxis]) -> int:
    """The windows that a vector holds: as many as a line has in its middle."""
    last = axes[-1]
    if last.adaptive or last.kernel > _UNROLLED:
        return 1
    inner = last.count - 2 * -(-last.padding // last.stride)
    return next((width for width in LANES if inner >= width), 1)


# -- launches --------------------------------------------------------------------------------


def _plan(request: Request) -> Kernels:
    """An item takes lines of windows."""
    axes, out = request.attrs["axes"], request.output
    last = axes[-1].count
    lines, rows = out.size // last, max(1, request.settings["results"] // last)
    flags = {"gpu": False, "width": request.settings["width"]}
    return _launch(request, flags, lines, rows, (-(-lines // rows),), None)


def _plan_each(request: Request) -> Kernels:
    """An item takes windows one by one."""
    out = request.output
    sizes, flags = in_groups(request, out.size)
    lines = out.size // request.attrs["axes"][-1].count
    return _launch(request, {"gpu": True, "width": 1, **flags}, lines, 1, *sizes)


def _launch(
    request: Request, flags: dict[str, Any], lines: int, rows: int, items: Any, local: Any
) -> Kernels:
    axes = request.attrs["axes"]
    args = (("in", 0), ("out", 0), ("out", 1), *_sizes(axes), ("ulong", lines), ("ulong", rows))
    context = {**_context(request.inputs[0], axes), **flags}
    return Kernels((Kernel(TEMPLATE, "max_windows", args, items, local, context),))


def _plan_backward(request: Request) -> Kernels:
    """An item per plane where one can add in place and each window took an element."""
    dtype = DTYPES[request.inputs[0].dtype]
    if dtype.storage != dtype.compute or not _filled(request.attrs["axes"]).all():
        items = -(-request.output.size // _GROUP) * _GROUP
        flags = {"scatter": False, "group": _GROUP, "each": 1}
        return _launch_backward(request, flags, (items,), (_GROUP,))
    planes = request.output.size // max(1, _volume(request.attrs["axes"]))
    return _launch_backward(request, {"scatter": True}, (planes,), None)


def _plan_backward_each(request: Request) -> Kernels:
    """An item looks who took an element."""
    sizes, flags = in_groups(request, request.output.size)
    return _launch_backward(request, {"scatter": False, **flags}, *sizes)


def _launch_backward(request: Request, flags: dict[str, Any], items: Any, local: Any) -> Kernels:
    axes, grad, out = request.attrs["axes"], request.inputs[0], request.output
    planes = out.size // max(1, _volume(axes))
    args = (("in", 0), ("in", 1), ("out", 0), *_sizes(axes), ("ulong", planes))
    context = {**_context(grad, axes), **flags}
    kernel = Kernel(TEMPLATE, "max_windows_backward", args, items, local, context)
    return Kernels((kernel,))


def _class_of(request: Request) -> str:
    """Which requests share settings: the sizes, and the windows."""
    axes = request.attrs["axes"]
    windows = ",".join(f"{a.kernel}/{a.stride}/{a.dilation}" for a in axes)
    kind = "adaptive " if axes[-1].adaptive else ""
    return f"{sizes_of(request.inputs[0])} by {kind}windows {windows}"


# -- in NumPy --------------------------------------------------------------------------------


def _reference(x: Any, axes: Sequence[WindowAxis]) -> Any:
    planes, taps = widened(x).reshape(-1, _volume(axes)), _taps(padded(axes))
    best = np.full((len(planes), taps[0][0].size), -np.inf, planes.dtype)
    place = np.full(best.shape, -1, np.int64)  # what a window without elements has
    for number, (inside, where) in enumerate(taps):
        value = planes.take(where, axis=1)
        wins = inside & ((value > best) | np.isnan(value) | (place < 0))
        best, place = np.where(wins, value, best), np.where(wins, number, place)
    shape = _shape(x, axes, "count")
    return best.reshape(shape), place.reshape(shape).astype(_offsets(axes))


@functools.lru_cache(maxsize=8)
def _taps(axes: Axes) -> list[tuple[Any, Any]]:
    """For each offset in the windows: whether it is inside, and which element of a plane it is."""
    _, height, width = (axis.size for axis in axes)
    starts, ends = zip(*(axis.places() for axis in axes), strict=True)
    taps = []
    for tap in np.ndindex(*(axis.kernel for axis in axes)):
        at = [s + k * axis.dilation for s, k, axis in zip(starts, tap, axes, strict=True)]
        a, b, c = [(i >= 0) & (i < np.minimum(end, axis.size))
                   for i, end, axis in zip(at, ends, axes, strict=True)]  # fmt: skip
        i, j, k = (np.clip(i, 0, axis.size - 1) for i, axis in zip(at, axes, strict=True))
        where = (i[:, None, None] * height + j[:, None]) * width + k
        taps.append(((a[:, None, None] & b[:, None] & c).reshape(-1), where.reshape(-1)))
    return taps


def _reference_backward(grad: Any, places: Any, axes: Sequence[WindowAxis]) -> Any:
    base, steps = _flat_parts(axes)
    filled = _filled(axes)
    at = np.where(filled, base + steps[np.where(filled, places, 0).astype(np.int64)], 0)
    at = at.reshape(-1, base.size)
    out = np.zeros((at.shape[0], _volume(axes)), widened(grad).dtype)
    given = np.where(filled, widened(grad), 0).reshape(at.shape)
    np.add.at(out, (np.arange(at.shape[0])[:, None], at), given)
    return out.reshape(_shape(grad, axes, "size"))


def _filled(axes: Sequence[WindowAxis]) -> Any:
    """Which windows have an element."""
    return functools.reduce(np.logical_and.outer, (axis.filled() for axis in axes))


def _flat_parts(given: Sequence[WindowAxis]) -> tuple[Any, Any]:
    """Where in a plane each window starts, and how far from there each of its offsets is."""
    axes = padded(given)
    _, height, width = (axis.size for axis in axes)
    start = [axis.places()[0] for axis in axes]
    base = (start[0][:, None, None] * height + start[1][:, None]) * width + start[2]
    taps = [np.arange(axis.kernel) * axis.dilation for axis in axes]
    steps = (taps[0][:, None, None] * height + taps[1][:, None]) * width + taps[2]
    return base.reshape([axis.count for axis in given]), steps.reshape(-1)


def flat_places(places: Any, axes: Sequence[WindowAxis]) -> Any:
    """int64 indices into the plane from offsets in windows; -1 of a window without elements."""
    base, steps = _flat_parts(axes)
    filled = _filled(axes)
    if not filled.all():
        places = ag.where(filled, places, 0)
    far = ag.index_select(Tensor.from_host(steps, places.device), 0, ag.reshape(places, (-1,)))
    places_in_input = ag.add(ag.reshape(far, places.shape), base)
    return places_in_input if filled.all() else ag.where(filled, places_in_input, -1)


# -- the ops ---------------------------------------------------------------------------------


def _infer(x: Spec, axes: Sequence[WindowAxis]) -> tuple[Spec, Spec]:
    floating("max_windows", x)
    shape = _shape(x, axes, "count")
    return Spec(shape, x.dtype), Spec(shape, _offsets(axes))


def _backward(saved: Saved, grad: Any, _: Any) -> Sequence[Any]:
    return [MAX_WINDOWS_BACKWARD(grad, saved.outputs[1], saved.attrs["axes"])]


def _infer_backward(grad: Spec, places: Spec, axes: Sequence[WindowAxis]) -> Spec:
    if grad.shape != places.shape:
        given = f"shapes {grad.shape} and {places.shape}"
        raise ShapeError(message("max_windows_backward", given, "equal ones"))
    return Spec(_shape(grad, axes, "size"), grad.dtype)


def _taken(saved: Saved, grad: Any) -> Sequence[Any]:
    """The gradient of the gradient: what lies at the places that were picked."""
    places, axes = saved.inputs[1], saved.attrs["axes"]
    lines = (-1, math.prod(axis.count for axis in axes))
    at = ag.reshape(flat_places(places, axes), lines)
    picked = ag.gather(ag.reshape(grad, (-1, _volume(axes))), 1, at)
    return [ag.reshape(picked, places.shape), None]


MAX_WINDOWS_BACKWARD: Final = Operator(
    name="max_windows_backward",
    bind=lambda grad, places, axes: ((grad, places), {"axes": axes}),
    infer=_infer_backward,
    reference=_reference_backward,
    backward=_taken,
    saves=(1,),
    saves_results=(),
    implementations=(
        Implementation("max_windows_backward", "gathered", _plan_backward, CPU),
        Implementation(
            "max_windows_backward",
            "element per item",
            _plan_backward_each,
            OTHERS,
            space=items_space(_class_of),
        ),
    ),
    doc="max_windows_backward(grad, places, axes): each window's gradient at the place it took.",
)
MAX_WINDOWS: Final = Operator(
    name="max_windows",
    bind=lambda x, axes: ((x,), {"axes": axes}),
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(),
    saves_results=(1,),
    implementations=(
        Implementation(
            "max_windows",
            "lines of windows",
            _plan,
            CPU,
            space=lines_space(
                (512, 2048, 8192),
                _WINDOWS,
                lambda request: _width(request.attrs["axes"]),
                _class_of,
            ),
        ),
        Implementation(
            "max_windows", "window per item", _plan_each, OTHERS, space=items_space(_class_of)
        ),
    ),
    results=("values", "places"),
    parts=(MAX_WINDOWS_BACKWARD,),
    doc="max_windows(x, axes): the largest element of each window over the last axes, and its "
    "offset in the window.",
)
