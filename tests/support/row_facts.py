"""An operator with three results, one of them integer, a residual, and a part for its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import ShapeError, message

NAME: Final = "row_facts"
PART: Final = "row_facts_backward"
PREFIX: Final = "rowfacts"
TEMPLATE: Final = f"{PREFIX}/row_facts.cl.j2"
#: Whether the residual was asked for, once for each plan.
KEPT: Final[list[bool]] = []
#: Which gradients the backward was given, once for each time that it ran.
GIVEN: Final[list[tuple[bool, ...]]] = []


def _wide(dtype: str) -> str:
    return DTYPES[dtype].wide


def _infer(x: Spec, w: Spec) -> tuple[Spec, ...]:
    if x.ndim != 2 or w.shape != x.shape[1:] or not w.size or w.dtype != x.dtype:
        raise ShapeError(message(NAME, f"{x} and {w}", "x (n, m) and w (m,), m above 0"))
    rows = x.shape[:1]
    return Spec(rows, x.dtype), Spec(rows, "int32"), Spec(rows, x.dtype)


def _plan(request: Request) -> Kernels:
    x = request.inputs[0]
    KEPT.append(request.keep)
    dtype = DTYPES[x.dtype]
    context = {"storage": dtype.storage, "acc": dtype.compute, "keep": request.keep}
    outputs = [("out", i) for i in range(4 if request.keep else 3)]
    args = (("in", 0), ("in", 1), *outputs, ("ulong", x.shape[1]))
    return Kernels((Kernel(TEMPLATE, NAME, args, x.shape[:1], None, context),))


def _reference(x: Any, w: Any) -> Any:
    wide = nc.widened(x)
    length = np.sqrt(1 + (wide * wide * w.astype(wide.dtype)).sum(1))
    place = wide.argmax(1)
    return length, place, wide[np.arange(len(x)), place], 1 / length


def _backward(saved: Saved, length: Any, place: Any, peak: Any) -> Sequence[Any]:
    GIVEN.append((length is not None, place is not None, peak is not None))
    x, w = saved.inputs
    (inverse,) = saved.residuals
    dx = dw = None
    if saved.needs[0]:
        dx = BACKWARD(x, w, inverse, saved.outputs[1], length, peak)
    if saved.needs[1] and length is not None:
        scale = ag.mul(length, ag.mul(inverse.astype(length.dtype), 0.5))
        dw = ag.sum(ag.mul(ag.square(x), ag.reshape(scale, (-1, 1))), 0)
    return [dx, dw]


# -- the part ----------------------------------------------------------------------------


def _plan_backward(request: Request) -> Kernels:
    x = request.inputs[0]
    dtype = DTYPES[x.dtype]
    of_length, of_peak = request.given[4:]
    context = {"storage": dtype.storage, "acc": dtype.compute}
    args = (*(("in", i) for i in range(len(request.inputs))), ("out", 0), ("ulong", x.shape[1]))
    flags = {"of_length": of_length, "of_peak": of_peak}
    return Kernels((Kernel(TEMPLATE, PART, args, x.shape[:1], None, context | flags),))


def _reference_backward(x: Any, w: Any, inverse: Any, place: Any, length: Any, peak: Any) -> Any:
    slopes = np.zeros(x.shape, inverse.dtype)
    if length is not None:
        slopes += (length * inverse)[:, None] * w * x
    if peak is not None:
        slopes[np.arange(len(x)), place] += peak
    return slopes


BACKWARD: Final = Operator(
    PART,
    bind=lambda *operands: (operands, {}),
    infer=lambda x, *rest: x,
    reference=_reference_backward,
    implementations=(Implementation(PART, "row per item", _plan_backward),),
)
ROW_FACTS: Final = Operator(
    NAME,
    bind=lambda x, w: ((x, w), {}),
    infer=_infer,
    reference=_reference,
    backward=_backward,
    residuals=lambda x, w: (Spec(x.shape[:1], _wide(x.dtype)),),
    implementations=(Implementation(NAME, "row per item", _plan),),
    results=("length", "place", "peak"),
    parts=(BACKWARD,),
    doc="row_facts(x, w): sqrt(1 + sum w x^2) of each row, where its maximum stands, and that.",
)


class RowFacts:
    """A plugin that brings it."""

    @nc.hookimpl
    def netcl_register_operators(self, registry: nc.OperatorRegistrar) -> None:
        registry.add(ROW_FACTS)
