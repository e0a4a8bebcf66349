"""What follows from where a view's elements lie: shapes, NumPy reference and gradient of its op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from netcl_core.ops.implementations import Saved
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.aliasing import ReadCall
from netcl_core.tape.gradients import add
from netcl_core.tape.modes import is_grad_enabled
from netcl_core.tensors.functions import functions
from netcl_core.tensors.storage import strided

#: `(geometry of the operand, **attrs)`: of each result; None: the result has to be a copy.
Places: TypeAlias = Callable[..., "Geometry | tuple[Geometry, ...] | None"]


def listed(places: Geometry | Sequence[Geometry] | None) -> Sequence[Geometry]:
    """The geometries of all results."""
    if places is None or isinstance(places, Geometry):
        return [] if places is None else [places]
    return places


def infer_by(view: Places) -> Callable[..., tuple[Spec, ...]]:
    """The shape rule of an op of views."""

    def infer(x: Spec, **attrs: Any) -> tuple[Spec, ...]:
        return tuple(
            [Spec(place.shape, x.dtype) for place in listed(view(dense(x.shape), **attrs))]
        )

    return infer


def reference_by(view: Places) -> Callable[..., tuple[Any, ...]]:
    """The op in NumPy."""

    def reference(x: Any, **attrs: Any) -> tuple[Any, ...]:
        flat, places = np.ascontiguousarray(x).reshape(-1), view(dense(x.shape), **attrs)
        return tuple([strided(flat, place, place.shape) for place in listed(places)])

    return reference


def backward_by(view: Places) -> Callable[..., Sequence[Any]]:
    """The gradient: zeros, with those of the results added where their elements lie."""

    def backward(saved: Saved, *grads: Any) -> Sequence[Any]:
        x = saved.inputs[0]
        records, total = is_grad_enabled(), None
        for grad, place in zip(grads, listed(view(dense(x.shape), **saved.attrs)), strict=True):
            if grad is None:
                continue
            call = ReadCall(x, place)
            rule, sum_of = call.gradients, _added
            if records:
                rule, sum_of = call.recorded_gradients, functions["add"]
            [part] = rule(None, [grad], (True,))
            total = part if total is None else sum_of(total, part)
        return [total]

    return backward


def _added(total: Any, part: Any) -> Any:
    """The sum of the gradients of several views; the first sum is a tensor of its own."""
    return add(total, True, part)
