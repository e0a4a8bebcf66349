"""Strided copies: the kernels behind joining, padding and flipping.

A `Geometry` names elements of a contiguous tensor by shape, strides and offset. Elements are copied
as bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Geometry, Implementation, Request, Requirements
from netcl_plugin_tensor import geometry, strided_cpu, strided_gpu
from netcl_plugin_tensor.views import merged, whole

_FROM_TO: Final = (("in", 0), ("out", 0))
#: Elements that a work-item of a CPU sets.
_CHUNK: Final = 1024


def copy(
    device: Device, dtype: str, source: Geometry, target: Geometry, buffers: Any = _FROM_TO
) -> Kernel:
    """A launch that copies a view of one buffer to a view of another, of the same shape."""
    if device.kind == "cpu":
        return strided_cpu.copy(dtype, source, target, buffers, strided_cpu.PLAIN)
    settings = strided_gpu.settings(device, source, target)
    return strided_gpu.copy(dtype, source, target, buffers, settings)


def gather(operator: str, view: Callable[[Spec, Any], Geometry]) -> tuple[Implementation, ...]:
    """The implementations of an op whose output is a view of its input, copied.

    One of rows for CPUs, one of neighbours for all others.
    """

    def views(request: Request) -> tuple[Geometry, Geometry]:
        return view(request.inputs[0], request.attrs), whole(request.output.shape)

    def planned(form: Any) -> Callable[[Request], Kernels]:
        def plan(request: Request) -> Kernels:
            dtype = request.output.dtype
            return Kernels((form.copy(dtype, *views(request), _FROM_TO, request.settings),))

        return plan

    return tuple(
        Implementation(
            operator,
            f"strided copy{where}",
            planned(form),
            Requirements(device_kinds=kinds),
            space=form.space(views),
        )
        for form, kinds, where in (
            (strided_cpu, ("cpu",), ""),
            (strided_gpu, ("gpu", "accelerator"), " by neighbours"),
        )
    )


def copy_across(source: Tensor, target: Tensor) -> bool:
    """Copy between a view and a contiguous tensor whose neighbours lie in other dimensions.

    For `ag.copy_by`: False for all other views, which need no tiles.
    """
    view = source.geometry or target.geometry
    if view is None or view.size < _MANY or (source.geometry and target.geometry):
        return False
    if not strided_cpu.is_across(merged(view)):
        return False
    pair = [x.geometry or whole(x.shape) for x in (source, target)]
    key = (source.device, source.dtype, *pair)
    copying = _across.get(key)
    if copying is None:
        if len(_across) > _KEPT:
            _across.clear()
        form = strided_cpu if source.device.kind == "cpu" else strided_gpu
        kernel = form.copy(source.dtype, *pair, _FROM_TO, form.settings(source.device, *pair))
        specs = [(Spec(source.shape, source.dtype),)] * 2
        copying = _across[key] = Bound(source.device, Kernels((kernel,)), *specs)
    copying([source.memory], [target.memory])
    return True


#: From so many elements on tiles are worth their kernel; and how many copies are kept ready.
_MANY: Final = 4096
_KEPT: Final = 256
_across: Final[dict[Any, Bound]] = {}


def narrow(device: Device, out: Spec, total: str) -> Kernel:
    """A launch that rounds scratch buffer 0, of the C type `total`, to output 0."""
    dtype = DTYPES[out.dtype]
    context = {"storage": dtype.storage, "compute": dtype.compute, "total": total}
    chunk = geometry.chunk(device, _CHUNK)
    args = (("scratch", 0), ("out", 0), ("ulong", out.size), ("ulong", chunk))
    sizes = geometry.groups(device, -(-out.size // chunk))
    return Kernel("tensor/narrow.cl.j2", "narrow", args, *sizes, context)


def fill(
    device: Device,
    out: Spec,
    entry: str,
    value: tuple[str, Any],
    buffer: tuple[str, int] = ("out", 0),
) -> Kernel:
    """A launch that sets all elements of output 0, or of another buffer, to a number."""
    dtype = DTYPES[out.dtype]
    width = geometry.chunk(device, 1, strided_gpu.BYTES // dtype.itemsize)
    context = {"storage": dtype.storage, "compute": dtype.compute, "value_type": value[0]}
    chunk = geometry.chunk(device, _CHUNK, width)
    args = (buffer, ("ulong", out.size), ("ulong", chunk), value)
    sizes = geometry.groups(device, -(-out.size // chunk))
    return Kernel("tensor/fill.cl.j2", entry, args, *sizes, {**context, "width": width})
