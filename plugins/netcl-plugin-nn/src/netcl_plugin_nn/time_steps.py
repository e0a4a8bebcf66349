"""A sequence as its steps: all of them from one call, whose gradient is one tensor again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from netcl_plugin_tensor.strided import copy
from netcl_plugin_tensor.views import View, whole

import netcl_core.autograd as ag
from netcl_core import Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved


def _plan(request: Request) -> Kernels:
    """A copy for each step; they lie one after the other."""
    x = request.inputs[0]
    size = math.prod(x.shape[1:])
    found = [
        copy(
            request.device,
            x.dtype,
            View((size,), (1,), i * size),
            whole((size,)),
            (("in", 0), ("out", i)),
        )
        for i in range(x.shape[0])
    ]
    return Kernels(tuple(found) if size else ())


def _backward(saved: Saved, *grads: Any) -> Sequence[Any]:
    shape, dtype = saved.inputs[0].shape[1:], saved.inputs[0].dtype
    device = next(each.device for each in grads if each is not None)
    missing = Tensor.zeros(shape, dtype, device)
    return [ag.stack([missing if each is None else each for each in grads])]


def time_steps(x: Any) -> tuple[Any, ...]:
    """The tensors `x[0]`, `x[1]` and so on."""
    return tuple(TIME_STEPS(x)) if x.shape[0] != 1 else (ag.squeeze(x, 0),)


#: With an operator for each step `x[t]` the gradient would be a sum of whole tensors.
TIME_STEPS: Final = Operator(
    name="time_steps",
    bind=lambda x: ((x,), {}),
    infer=lambda x: tuple(Spec(x.shape[1:], x.dtype) for _ in range(x.shape[0])),
    reference=lambda x: tuple(x),
    backward=_backward,
    saves=(),
    implementations=(Implementation("time_steps", "copy per step", _plan),),
    doc="time_steps(x): the tensors x[0], x[1] and so on.",
)
