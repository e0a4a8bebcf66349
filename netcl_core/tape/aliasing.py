"""Views and changes in place in a graph: what is read of a memory, and what is put into it.

A view is recorded by its own op. Once the base or another view has been changed, all living views
are recorded anew, as reads of the base at the places of their geometries; the change itself is
recorded as the base with one region replaced (PyTorch's CopySlices).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, final

from netcl_core.codegen.layout import Shape
from netcl_core.codegen.lowering import plan
from netcl_core.codegen.region import Signature
from netcl_core.codegen.strided_copy import COPY
from netcl_core.hardware.device import Device
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import Needs, PlainCall, apply, pack_by
from netcl_core.tape.computations import axis_apart, picked, sum_to
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import Placed, whole
from netcl_core.tape.modes import is_grad_enabled
from netcl_core.tape.region_call import RegionCall
from netcl_core.tensors.functions import functions
from netcl_core.tensors.tensor import Tensor


class _PlacesCall(PlainCall):
    """A call that is about the elements of a tensor at the places of a geometry.

    The geometry counts from the beginning of the tensor, which is no view itself.
    """

    __slots__ = ("device", "geometry", "known", "name", "results", "shape")

    def __init__(self, x: Any, geometry: Geometry, name: str, result: Shape) -> None:
        self.name = name
        self.device: Device = x.device
        self.shape: Shape = x.shape
        self.geometry = geometry
        self.results = (Spec(result, x.dtype),)
        self.known: dict[Needs, Any] = {}

    def flows(self, needs: Needs) -> Needs:
        """Whether a gradient reaches an input."""
        return (True in needs,)

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """The gradients read no input."""
        return ()


@final
class ReadCall(_PlacesCall):
    """The elements at the places, as a call (see `apply.Call`)."""

    __slots__ = ()
    view = True

    def __init__(self, x: Any, geometry: Geometry, name: str = "as_strided") -> None:
        super().__init__(x, geometry, name, geometry.shape)

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Tensor:
        """The view."""
        return inputs[0].viewed(self.geometry)

    def gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """Zeros but for the gradient at the places that were read."""
        return [Placed(whole(grads[0]).value, self.geometry, self.shape)]

    def recorded_gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same by a recorded call."""
        geometry, grad = self.geometry, whole(grads[0])
        if geometry.overlaps_itself:
            geometry = geometry.once
            shape, wide = geometry.shape, grad.shape
            grad = apply_op(
                lambda value: sum_to(value, shape),
                lambda given: [given.expand(wide)],
                grad,
                op_name="sum_to",
                saves=(),
            )
        return [self._placed(geometry, grad)]

    def _placed(self, geometry: Geometry, grad: Any) -> Any:
        """Zeros with a gradient added at the places of a geometry, recorded."""
        if not geometry.overlaps_itself:
            zeros = Tensor.full(self.shape, 0, grad.dtype, grad.device)
            return apply(PutCall(zeros, geometry), [zeros, grad])
        axis = axis_apart(geometry)
        parts = (
            self._placed(picked(geometry, axis, i), functions["narrow"](grad, axis, i, 1))
            for i in range(geometry.shape[axis])
        )
        return reduce(functions["add"], parts)


@final
class PutCall(_PlacesCall):
    """A tensor with a region replaced, as a call of (tensor, elements of the region).

    With `written` the region has been overwritten already, and the result is the tensor's memory.
    """

    __slots__ = ("written",)

    def __init__(self, x: Any, geometry: Geometry, name: str = "put", written: Any = None) -> None:
        super().__init__(x, geometry, name, x.shape)
        self.written: Tensor | None = written

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> Tensor:
        """The tensor with the region."""
        if self.written is not None:
            whole_value, self.written = self.written.alias(self.shape), None
            return whole_value
        whole_value = inputs[0].duplicate()
        inputs[1].copy_into(whole_value.viewed(self.geometry))
        return whole_value

    def gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """Outside of the region to the tensor, inside to the elements."""
        grad = whole(grads[0]).value
        if grad.geometry is not None:
            grad = grad.duplicate()
        gradients: list[Any] = [None, grad.viewed(self.geometry) if needs[1] else None]
        if needs[0]:
            around = grad.duplicate()
            zeros = Tensor.full(self.geometry.shape, 0, grad.dtype, grad.device)
            zeros.copy_into(around.viewed(self.geometry))
            gradients[0] = around
        return gradients

    def recorded_gradients(self, node: Any, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same by recorded calls."""
        grad = contiguous(whole(grads[0]))
        zeros = Tensor.full(self.geometry.shape, 0, grad.dtype, grad.device)
        return [
            apply(PutCall(grad, self.geometry), [grad, zeros]) if needs[0] else None,
            apply(ReadCall(grad, self.geometry), [grad]) if needs[1] else None,
        ]


@lru_cache(maxsize=1024)
def _copying(shape: Shape, dtype: str, device: Device) -> RegionCall:
    return RegionCall(plan(COPY, device, Signature(((shape, dtype),), ())), "contiguous")


def contiguous(x: Any) -> Any:
    """An operand that is no view: itself, or a copy, which all who ask for it share."""
    value = x.value
    if value.geometry is None:
        return x
    version, reference = value.packed or (-1, None)
    packed = reference() if reference is not None and version == value.version else None
    if packed is None or packed.requires_grad != (x.requires_grad and is_grad_enabled()):
        packed = apply(_copying(value.shape, value.dtype, value.device), [x])
        packed.value.inherit_range(value)
        value.packed = value.version, weakref.ref(packed)
    return packed


pack_by(contiguous)
