"""The few computations that the engine itself needs for gradients; none is an op.

They run through the same lowering and templates as everything that plugins bring, and are not
recorded; `recorded_gradients.py` computes the same so that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from netcl_core.codegen.layout import Shape
from netcl_core.codegen.lowering import Plan, allocate_results, offsets_of, plan, views_of
from netcl_core.codegen.region import ADDED, SAME, PrimitiveStep, Ref, Region, Signature
from netcl_core.codegen.strided_copy import COPY
from netcl_core.dtypes import DTYPES
from netcl_core.hardware.device import Device
from netcl_core.plugins.registry import registry
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.tensors.host_data import check_dtype
from netcl_core.tensors.storage import copy_elements
from netcl_core.tensors.tensor import Tensor

ACCUMULATE: Final = Region(2, 0, (PrimitiveStep(ADDED, (("in", 0), ("in", 1))),), (("step", 0),))


def run_plan(planned: Plan, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> list[Tensor]:
    """Fresh tensors with the results of a plan."""
    buffers = allocate_results(planned)
    planned.compute(inputs, scalars, buffers)
    return [
        Tensor(buffer, planned.shape, dtype, planned.device)
        for buffer, dtype in zip(buffers, planned.types.outputs, strict=True)
    ]


def accumulate(total: Tensor, term: Tensor, *, in_place: bool) -> Tensor:
    """`total + term`, written into `total` if that is allowed: its elements lie apart."""
    term = convert(term, total.dtype)
    tensors = ((total.shape, total.dtype), (term.shape, term.dtype))
    planned = plan(ACCUMULATE, total.device, Signature(tensors, ()))
    if not in_place:
        return run_plan(planned, (total, term), ())[0]
    if total.geometry is None:
        planned.compute((total, term), (), (total.buffer,))
    elif total.device.has_kernels:
        seen = (total, term, total)
        planned.of_views(views_of(seen))(
            [x.memory for x in seen[:2]], (), (), [total.memory], offsets_of(seen)
        )
    else:
        copy_elements(run_plan(planned, (total, term), ())[0], total)
    return total


def add_at(total: Tensor, geometry: Geometry, term: Tensor, first: bool = False) -> None:
    """Add elements to a tensor that is no view, at the places of a geometry, which may coincide.

    `first` says that there are zeros.
    """
    single = geometry.once
    if single.shape != geometry.shape:
        term = sum_to(term, single.shape)
    if not single.overlaps_itself:
        region = total.viewed(single)
        if first:
            copy_elements(term, region)
        else:
            accumulate(region, term, in_place=True)
        return
    axis = axis_apart(single)
    for i in range(single.shape[axis]):
        add_at(
            total,
            picked(single, axis, i),
            term.viewed(picked(term.geometry or dense(term.shape), axis, i)),
        )


def axis_apart(geometry: Geometry) -> int:
    """The dimension to take apart where elements coincide: the shortest that has several."""
    return min(
        (i for i, size in enumerate(geometry.shape) if size > 1), key=geometry.shape.__getitem__
    )


def picked(geometry: Geometry, axis: int, place: int, size: int = 1) -> Geometry:
    """A geometry from one place of an axis on, of which so many elements stay."""
    offset = geometry.offset + place * geometry.strides[axis]
    shape = (*geometry.shape[:axis], size, *geometry.shape[axis + 1 :])
    return geometry._replace(shape=shape, offset=offset)


@lru_cache(maxsize=len(DTYPES))
def cast_region(dtype: str, rounds: bool = True) -> Region:
    """The region of a conversion to a dtype."""
    return Region(1, 0, (cast_step(("in", 0), dtype, rounds),), (("step", 0),))


def cast_step(operand: Ref, dtype: str, rounds: bool = True) -> PrimitiveStep:
    """The conversion of a value to a dtype; see `PrimitiveStep` for what does not round."""
    return PrimitiveStep(SAME, (operand,), cast=dtype, rounds=rounds)


def expand(tensor: Tensor, shape: Shape) -> Tensor:
    """A tensor repeated along its dimensions of size 1; itself if it has that shape."""
    if tensor.shape == shape:
        return tensor
    signature = Signature(((tensor.shape, tensor.dtype),), (), shape)
    return run_plan(plan(COPY, tensor.device, signature), (tensor,), ())[0]


def convert(tensor: Tensor, dtype: str) -> Tensor:
    """A tensor in another dtype; itself if it has that dtype."""
    if tensor.dtype == dtype:
        return tensor
    check_dtype(dtype, tensor.device)
    signature = Signature(((tensor.shape, tensor.dtype),), ())
    return run_plan(plan(cast_region(dtype), tensor.device, signature), (tensor,), ())[0]


def move(tensor: Tensor, device: Device) -> Tensor:
    """A tensor on another device, through the host; itself if it is there already."""
    if tensor.device is device:
        return tensor
    return Tensor.from_host(tensor.to_host(), device)


@lru_cache(maxsize=1)
def _reductions() -> Any:
    """The namespace `reductions`, which sums in one or two launches; None: nobody brings it."""
    return registry.space("reductions")


registry.on_change(_reductions.cache_clear)


def sum_to(gradient: Tensor, shape: Shape) -> Tensor:
    """A gradient summed over the dimensions along which its input was broadcast."""
    if gradient.shape == shape:
        return gradient
    lead = gradient.ndim - len(shape)
    axes = tuple(
        axis
        for axis, size in enumerate(gradient.shape)
        if axis < lead or (shape[axis - lead] == 1 and size != 1)
    )
    if not gradient.size:
        return Tensor.full(shape, 0, gradient.dtype, gradient.device)
    reductions = _reductions()
    sums = _halved if reductions is None else reductions.sums
    return Tensor(sums(gradient, axes), shape, gradient.dtype, gradient.device)


def _halved(x: Tensor, axes: Sequence[int]) -> Any:
    """The buffer of the sums over axes: a half is added to the other until one element is left."""
    total = convert(x, DTYPES[x.dtype].wide)
    total = total.duplicate() if total is x else total
    for axis in axes:
        while (size := total.shape[axis]) > 1:
            whole, rear = total.geometry or dense(total.shape), size // 2
            front, back = (picked(whole, axis, i, rear) for i in (0, size - rear))
            accumulate(total.viewed(front), total.viewed(back), in_place=True)
            total = total.viewed(picked(whole, axis, 0, size - rear))
    return convert(total.duplicate(), x.dtype).buffer
