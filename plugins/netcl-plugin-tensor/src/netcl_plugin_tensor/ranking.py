"""Extremes with their places: max and min along an axis, and topk."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis, ndim_of, reduced, shape_of
from netcl_plugin_tensor.extremes_gpu import is_divided, plan_extremes, shape_along
from netcl_plugin_tensor.line_sort import is_sorted_sooner, plan_sort
from netcl_plugin_tensor.merge_sort import order_of
from netcl_plugin_tensor.selecting import ADD_AT_INDEX
from netcl_plugin_tensor.sorting import RESULTS, best, ranked_backward
from netcl_plugin_tensor.topk_gpu import is_selected, plan_topk

TEMPLATE: Final = "tensor/ranking.cl.j2"
#: How many elements are worth being moved up for each one that is read.
_FEW: Final = 32


def _plan(request: Request) -> Kernels:
    """The best by many items a line, few by one item that keeps them; else lines are sorted."""
    (x,), dim, attrs = request.inputs, request.attrs["dim"], request.attrs
    size = x.shape[dim] if x.shape else 1
    if attrs["k"] == 1 and is_divided(request, size):
        along = shape_along(x, dim)
        return plan_extremes(request, along, attrs["largest"], True, attrs["nan_first"])
    if is_selected(request, size, attrs["k"]):
        return plan_topk(request)
    if attrs["k"] > _FEW or is_sorted_sooner(request.device, x.size // size, size):
        return plan_sort(request)
    inner = math.prod(x.shape[dim + 1 :])
    args = (("in", 0), ("out", 0), ("out", 1), ("ulong", size), ("ulong", attrs["k"]),
            ("ulong", inner))  # fmt: skip
    return Kernels((Kernel(TEMPLATE, "best", args, (x.size // size,), None, order_of(request)),))


# -- max and min -----------------------------------------------------------------------


def _bind_extreme(name: str, largest: bool) -> Callable[..., Any]:
    def bind(x: Any, dim: int, keepdim: bool = False) -> Any:
        place = axis(name, dim, ndim_of(x))
        attrs = {"dim": place, "keepdim": bool(keepdim)}
        return (x,), {**attrs, "k": 1, "largest": largest, "nan_first": True}

    return bind


def _infer_extreme(name: str) -> Callable[..., Any]:
    def infer(x: Spec, dim: int, keepdim: bool, **rest: Any) -> tuple[Spec, Spec]:
        shape = reduced(x.shape, (dim,), keepdim)
        if math.prod(shape) and not x.size:
            raise ShapeError(message(name, f"no elements in {x.shape} over {dim}", "at least one"))
        return Spec(shape, x.dtype), Spec(shape, "int64")

    return infer


def _reference_extreme(x: Any, dim: int, keepdim: bool, **rest: Any) -> Any:
    values, places = best(x, dim=dim, **rest) if x.size else (x, x.astype(np.int64))
    shape = reduced(x.shape, (dim,), keepdim)
    return values.reshape(shape), places.reshape(shape)


def extreme_backward(saved: Saved, grad: Tensor, _: Any) -> Sequence[Any]:
    """The gradient goes to the element that was picked."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    if not x.ndim:
        return [grad]
    lines = reduced(x.shape, (dim,), True)
    places = ag.reshape(saved.outputs[1], lines)
    return [ADD_AT_INDEX(ag.reshape(grad, lines), places, dim, "max", False, False, x.shape)]


def _along(name: str, largest: bool) -> Operator:
    return Operator(
        name=f"{name}_along",
        bind=_bind_extreme(name, largest),
        infer=_infer_extreme(name),
        reference=_reference_extreme,
        backward=extreme_backward,
        saves=(),
        implementations=(Implementation(f"{name}_along", "line per item", _plan),),
        results=RESULTS,
        doc=f"{name}_along(x, dim, keepdim=False): the first {name}imum along an axis, its place.",
    )


MAX_ALONG: Final = _along("max", True)
MIN_ALONG: Final = _along("min", False)


def max(x: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The maximum of all elements, or along an axis with its index.

    >>> ag.max([1.0, 3.0, 2.0]).item()
    3.0
    >>> values, places = ag.max([[1.0, 2.0], [3.0, 4.0]], dim=1)
    >>> values.tolist(), places.tolist()
    ([2.0, 4.0], [1, 1])

    Args:
        x: A tensor.
        dim: None: one 0-d tensor, over which ties share the gradient, as `amax`. An int: a named
            tuple of `values` and `indices` (int64) of the first maximum along that axis; the
            gradient goes to that element. A tensor: the larger of both, as `maximum`.
        keepdim: Whether the axis stays, with size 1.
        other: The other tensor by its name.

    NaN counts as the largest.
    """
    other = dim if isinstance(dim, Tensor) else other
    if other is not None:
        return ag.maximum(x, other)
    return ag.amax(x, None, keepdim) if dim is None else MAX_ALONG(x, dim, keepdim)


def min(x: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The minimum of all elements, or along an axis with its index; arguments as of `max`.

    NaN counts as the smallest.

    >>> ag.min([1.0, 3.0, 2.0]).item()
    1.0
    >>> values, places = ag.min([[1.0, 2.0], [3.0, 4.0]], dim=1)
    >>> values.tolist(), places.tolist()
    ([1.0, 3.0], [0, 0])
    """
    other = dim if isinstance(dim, Tensor) else other
    if other is not None:
        return ag.minimum(x, other)
    return ag.amin(x, None, keepdim) if dim is None else MIN_ALONG(x, dim, keepdim)


# -- topk ------------------------------------------------------------------------------


def _bind_topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    shape, count = shape_of(x), operator.index(k)
    place = axis("topk", dim, len(shape))
    return (x,), {
        "k": count or int(not shape),  # without axes there is one result in any case
        "dim": place,
        "largest": bool(largest),
        "nan_first": bool(largest),
    }


def _infer_topk(x: Spec, k: int, dim: int, **rest: Any) -> tuple[Spec, Spec]:
    size = x.shape[dim] if x.shape else 1
    if not 0 <= k <= size:
        given = f"k={k} along an axis of {size}"
        raise AttributeValueError(message("topk", given, f"0 to {size}"))
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :]) if x.shape else ()
    return Spec(shape, x.dtype), Spec(shape, "int64")


TOPK: Final = Operator(
    name="topk",
    bind=_bind_topk,
    infer=_infer_topk,
    reference=best,
    backward=ranked_backward,
    saves=(),
    implementations=(Implementation("topk", "line per item, or lines sorted", _plan),),
    results=RESULTS,
    parts=(ADD_AT_INDEX,),
    doc=(
        "topk(x, k, dim=-1, largest=True, sorted=True): a named tuple of the k largest (or "
        "smallest) `values` along an axis, the best first, and their `indices`; of equal ones the "
        "first goes first, and NaN counts as the largest."
        "\n\n"
        ">>> values, places = ag.topk([3.0, 1.0, 2.0], 2)\n"
        ">>> values.tolist(), places.tolist()\n"
        "([3.0, 2.0], [0, 2])"
    ),
)
OPERATORS = (
    composite(max, parts=(MAX_ALONG,)),
    composite(min, parts=(MIN_ALONG,)),
    TOPK,
)
