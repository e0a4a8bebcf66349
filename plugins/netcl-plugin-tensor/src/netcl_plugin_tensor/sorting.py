"""Elements in order: sort and argsort, by a stable sort of lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Saved, composite
from netcl_plugin_tensor.axes import axis, shape_of
from netcl_plugin_tensor.line_sort import plan_sort
from netcl_plugin_tensor.selecting import ADD_AT_INDEX

RESULTS: Final = ("values", "indices")


def best(x: Any, k: int, dim: int, largest: bool, nan_first: bool) -> tuple[Any, Any]:
    """In NumPy: the k best along an axis, of equal ones the first."""
    given = x if x.ndim else x.reshape(1)
    lines = widened(given)
    if largest:  # NumPy sorts NaN to the end
        last = lines.shape[dim] - 1
        order = np.flip(last - np.argsort(np.flip(lines, dim), dim, kind="stable"), dim)
    else:
        order = np.argsort(lines, dim, kind="stable")
        if nan_first:
            is_nan = np.take_along_axis(lines != lines, order, dim)
            order = np.take_along_axis(order, np.argsort(~is_nan, dim, kind="stable"), dim)
    places = np.take(order, np.arange(k), dim)
    values = np.take_along_axis(given, places, dim)
    return (values, places) if x.ndim else (values.reshape(()), places.reshape(()))


def _bind_sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    shape = shape_of(x)
    place = axis("sort", dim, len(shape))
    down = bool(descending)
    count = shape[place] if shape else 1
    return (x,), {"k": count, "dim": place, "largest": down, "nan_first": down}


def ranked_backward(saved: Saved, grad: Tensor, _: Any) -> Sequence[Any]:
    """Each gradient goes back to the place that its element came from."""
    x, dim = saved.inputs[0], saved.attrs["dim"]
    if not x.ndim:
        return [grad]
    return [ADD_AT_INDEX(grad, saved.outputs[1], dim, "sort", False, False, x.shape)]


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices (int64) that put a tensor in order along an axis; arguments as of `sort`.

    >>> ag.argsort([3.0, 1.0, 2.0]).tolist()
    [1, 2, 0]
    """
    return ag.sort(input, dim, descending, stable).indices


OPERATORS = (
    Operator(
        name="sort",
        bind=_bind_sort,
        infer=lambda x, k, dim, largest, nan_first: (x, Spec(x.shape, "int64")),
        reference=best,
        backward=ranked_backward,
        saves=(),
        implementations=(Implementation("sort", "stable sort of lines", plan_sort),),
        results=RESULTS,
        parts=(ADD_AT_INDEX,),
        doc=(
            "sort(x, dim=-1, descending=False, stable=False): a named tuple of the `values` in "
            "order along an axis and their `indices`; equal ones always keep their order, and NaN "
            "counts as the largest."
            "\n\n"
            ">>> values, places = ag.sort([3.0, 1.0, 2.0])\n"
            ">>> values.tolist(), places.tolist()\n"
            "([1.0, 2.0, 3.0], [1, 2, 0])"
        ),
    ),
    composite(argsort, ("input",)),
)
