"""The largest element of each window with its place, and how gradients find their way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message
from netcl_plugin_conv.windows import Axis, floating, padded

TEMPLATE: Final = "conv/max_pool.cl.j2"
#: Windows that an item of a CPU takes at least.
_WINDOWS: Final = 2048
#: A window may have so many elements if offsets are bytes.
_BYTE: Final = 256
#: Longer windows are read element by element: their kernel would be a long text.
_UNROLLED: Final = 16
_GROUP: Final = 64


def _shape(x: Any, axes: Sequence[Axis], sizes: str) -> tuple[int, ...]:
    """The shape of x with other sizes along its last axes: `size` or `count` of each of them."""
    return (*x.shape[: len(x.shape) - len(axes)], *(getattr(axis, sizes) for axis in axes))


def _volume(axes: Sequence[Axis]) -> int:
    return math.prod(axis.size for axis in axes)


def _offsets(axes: Sequence[Axis]) -> str:
    return "uint8" if math.prod(axis.kernel for axis in axes) <= _BYTE else "int32"


def _sizes(given: Sequence[Axis]) -> list[tuple[str, int]]:
    axes = padded(given)
    sizes = [axis.size for axis in axes] + [axis.count for axis in axes]
    return [("ulong", n) for n in (*sizes, *(axis.padding for axis in axes))]


def _context(x: Spec, axes: Sequence[Axis]) -> dict[str, Any]:
    dtype = DTYPES[x.dtype]
    return {
        "storage": dtype.storage,
        "acc": dtype.compute,
        "offsets": DTYPES[_offsets(axes)].storage,
        "axes": tuple((a.kernel, a.stride, a.dilation, a.adaptive) for a in padded(axes)),
    }


def _width(axes: Sequence[Axis]) -> int:
    """The windows that a vector holds: as many as a line has in its middle."""
    last = axes[-1]
    if last.adaptive or last.kernel > _UNROLLED:
        return 1
    inner = last.count - 2 * -(-last.padding // last.stride)
    return next((width for width in (16, 8, 4) if inner >= width), 1)


# -- launches --------------------------------------------------------------------------------


def _plan(request: Request) -> Kernels:
    axes, x, out = request.attrs["axes"], request.inputs[0], request.output
    gpu, last = request.device.kind == "gpu", axes[-1].count
    lines = out.size // last
    rows = max(1, _WINDOWS // last)
    items = -(-out.size // _GROUP) * _GROUP if gpu else -(-lines // rows)
    args = (("in", 0), ("out", 0), ("out", 1), *_sizes(axes), ("ulong", lines), ("ulong", rows))
    context = {**_context(x, axes), "gpu": gpu, "width": 1 if gpu else _width(axes)}
    local = (_GROUP,) if gpu else None
    return Kernels((Kernel(TEMPLATE, "max_windows", args, (items,), local, context),))


def _plan_backward(request: Request) -> Kernels:
    """An item per plane where a CPU can add in place, else per element."""
    axes, grad, out = request.attrs["axes"], request.inputs[0], request.output
    planes = out.size // max(1, _volume(axes))
    dtype = DTYPES[grad.dtype]
    scatter = request.device.kind != "gpu" and dtype.storage == dtype.compute
    items = planes if scatter else -(-out.size // _GROUP) * _GROUP
    args = (("in", 0), ("in", 1), ("out", 0), *_sizes(axes), ("ulong", planes))
    context = {**_context(grad, axes), "scatter": scatter}
    local = None if scatter else (_GROUP,)
    kernel = Kernel(TEMPLATE, "max_windows_backward", args, (items,), local, context)
    return Kernels((kernel,))


# -- in NumPy --------------------------------------------------------------------------------


def _reference(x: Any, axes: Sequence[Axis]) -> Any:
    shape, axes = _shape(x, axes, "count"), padded(axes)
    x = x.reshape(-1, *(axis.size for axis in axes))
    best = np.full(_shape(x, axes, "count"), -np.inf, widened(x).dtype)
    place = np.full(best.shape, -1, np.int64)
    starts, ends = zip(*(axis.places() for axis in axes), strict=True)
    for number, taps in enumerate(np.ndindex(*(axis.kernel for axis in axes))):
        at = [s + k * axis.dilation for s, k, axis in zip(starts, taps, axes, strict=True)]
        inside = [(i >= 0) & (i < np.minimum(end, axis.size))
                  for i, end, axis in zip(at, ends, axes, strict=True)]  # fmt: skip
        whole = inside[0][:, None, None] & inside[1][:, None] & inside[2]
        where = [np.clip(i, 0, axis.size - 1) for i, axis in zip(at, axes, strict=True)]
        value = widened(x)[..., where[0][:, None, None], where[1][:, None], where[2]]
        wins = whole & ((value > best) | np.isnan(value) | (place < 0))
        best, place = np.where(wins, value, best), np.where(wins, number, place)
    return best.reshape(shape), place.reshape(shape).astype(_offsets(axes))


def _reference_backward(grad: Any, places: Any, axes: Sequence[Axis]) -> Any:
    base, steps = _flat_parts(axes)
    at = (base + steps[places.astype(np.int64)]).reshape(-1, base.size)
    out = np.zeros((at.shape[0], _volume(axes)), widened(grad).dtype)
    np.add.at(out, (np.arange(at.shape[0])[:, None], at), widened(grad).reshape(at.shape))
    return out.reshape(_shape(grad, axes, "size"))


def _flat_parts(given: Sequence[Axis]) -> tuple[Any, Any]:
    """Where in a plane each window starts, and how far from there each of its offsets is."""
    axes = padded(given)
    _, height, width = (axis.size for axis in axes)
    start = [axis.places()[0] for axis in axes]
    base = (start[0][:, None, None] * height + start[1][:, None]) * width + start[2]
    taps = [np.arange(axis.kernel) * axis.dilation for axis in axes]
    steps = (taps[0][:, None, None] * height + taps[1][:, None]) * width + taps[2]
    return base.reshape([axis.count for axis in given]), steps.reshape(-1)


def flat_places(places: Any, axes: Sequence[Axis]) -> Any:
    """int64 indices into the plane from offsets in windows."""
    base, steps = _flat_parts(axes)
    far = ag.index_select(Tensor.from_host(steps, places.device), 0, ag.reshape(places, (-1,)))
    return ag.add(ag.reshape(far, places.shape), base)


# -- the ops ---------------------------------------------------------------------------------


def _infer(x: Spec, axes: Sequence[Axis]) -> tuple[Spec, Spec]:
    floating("max_windows", x)
    shape = _shape(x, axes, "count")
    return Spec(shape, x.dtype), Spec(shape, _offsets(axes))


def _backward(saved: Saved, grad: Any, _: Any) -> Sequence[Any]:
    return [MAX_WINDOWS_BACKWARD(grad, saved.outputs[1], saved.attrs["axes"])]


def _infer_backward(grad: Spec, places: Spec, axes: Sequence[Axis]) -> Spec:
    if grad.shape != places.shape:
        given = f"shapes {grad.shape} and {places.shape}"
        raise ShapeError(message("max_windows_backward", given, "equal ones"))
    return Spec(_shape(grad, axes, "size"), grad.dtype)


def _taken(saved: Saved, grad: Any) -> Sequence[Any]:
    """The gradient of the gradient: what lies at the places that were picked."""
    places, axes = saved.inputs[1], saved.attrs["axes"]
    lines = (-1, math.prod(axis.count for axis in axes))
    at = ag.reshape(flat_places(places, axes), lines)
    found = ag.gather(ag.reshape(grad, (-1, _volume(axes))), 1, at)
    return [ag.reshape(found, places.shape), None]


MAX_WINDOWS_BACKWARD: Final = Operator(
    name="max_windows_backward",
    bind=lambda grad, places, axes: ((grad, places), {"axes": axes}),
    infer=_infer_backward,
    reference=_reference_backward,
    backward=_taken,
    saves=(1,),
    implementations=(Implementation("max_windows_backward", "gathered", _plan_backward),),
    doc="max_windows_backward(grad, places, axes): each window's gradient at the place it took.",
)
MAX_WINDOWS: Final = Operator(
    name="max_windows",
    bind=lambda x, axes: ((x,), {"axes": axes}),
    infer=_infer,
    reference=_reference,
    backward=_backward,
    saves=(),
    implementations=(Implementation("max_windows", "lines of windows", _plan),),
    results=("values", "places"),
    parts=(MAX_WINDOWS_BACKWARD,),
    doc="max_windows(x, axes): the largest element of each window over the last axes, and its "
    "offset in the window.",
)
