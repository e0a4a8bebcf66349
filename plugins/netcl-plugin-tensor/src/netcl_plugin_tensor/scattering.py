"""scatter and scatter_add: elements put, or added, at indices along one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Kernels, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis
from netcl_plugin_tensor.selecting import ADD_AT_INDEX, TAKE, check_index, collected
from netcl_plugin_tensor.strided import copy
from netcl_plugin_tensor.views import whole

_INDICES: Final = ("uint8", "int8", "int16", "int32", "int64")


def _bind(x: Any, index: Any, src: Any, dim: int, whole: bool = False, wraps: bool = False) -> Any:
    return (x, index, src), {"dim": dim, "who": "scatter", "whole": whole, "wraps": wraps}


def _plan(request: Request) -> Kernels:
    x = request.inputs[0]
    first = copy(request.device, x.dtype, whole(x.shape), whole(x.shape))
    return collected(request, "put", first, 2)


def _reference(x: Any, index: Any, src: Any, dim: int, whole: bool, **rest: Any) -> Any:
    out = x.copy()
    places: list[Any] = [slice(None)] * dim + [None] if whole else list(np.indices(index.shape))
    places[dim] = index.astype(np.int64)
    out[tuple(places)] = src
    return out


def _backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    index, dim, whole = saved.inputs[1], saved.attrs["dim"], saved.attrs["whole"]
    shape = index.shape
    if whole:
        shape = (*grad.shape[:dim], index.size, *grad.shape[dim + 1 :])
    zeros = Tensor.zeros(shape, grad.dtype, grad.device)
    wraps = saved.attrs["wraps"]
    kept = PUT_LINES(grad, index, zeros, dim, whole, wraps) if saved.needs[0] else None
    take = TAKE if wraps else ag.index_select if whole else ag.gather
    return [kept, None, take(grad, dim, index) if saved.needs[2] else None]


PUT_LINES: Final = Operator(
    name="put_lines",
    bind=_bind,
    infer=lambda x, index, src, **attrs: x,
    reference=_reference,
    backward=_backward,
    saves=(1,),
    saves_results=(),
    check=check_index,
    implementations=(Implementation("put_lines", "line per item", _plan),),
    doc="put_lines(x, index, src, dim): x with src at the indices along an axis.",
)


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Any:
    """`input` with the elements of `src` at indices along an axis: out[index[i]] = src[i].

    >>> ag.scatter(nc.zeros(3), 0, nc.tensor([2, 0]), nc.tensor([1.0, 5.0])).tolist()
    [5.0, 0.0, 1.0]

    Args:
        input: A tensor of any dtype.
        dim: The axis; on all others an index keeps its own place.
        index: Integers, as many dimensions as `input`.
        src: A tensor of the input's dtype, at least as large as the index, or a number.
        value: A number in its place.
        reduce: None, or `'add'`, which is `scatter_add`.

    Of an index that comes twice the last element stays; the gradient of `src` then goes to each.
    Raises AttributeValueError for an index out of range.
    """
    if reduce is not None and not (isinstance(reduce, str) and reduce == "add"):
        raise AttributeValueError(message("scatter", f"reduce={reduce!r}", "None or 'add'"))
    if (src is None) == (value is None):
        given = "neither src nor value" if src is None else "src and value"
        raise ArgumentError(message("scatter", given, "one of them"))
    make = PUT_LINES if reduce is None else _added
    return _scattered("scatter", make, input, dim, index, value if src is None else src)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """`input` with the elements of `src` added at indices along an axis; arguments as of `scatter`.

    The result is the same every time: where work-items share a place they add whole numbers.

    >>> ag.scatter_add(nc.zeros(2), 0, nc.tensor([1, 1]), nc.tensor([1.0, 5.0])).tolist()
    [0.0, 6.0]
    """
    return _scattered("scatter_add", _added, input, dim, index, src)


def _added(x: Any, index: Any, src: Any, dim: int) -> Any:
    return ag.add(x, ADD_AT_INDEX(src, index, dim, "scatter_add", False, False, x.shape))


def _scattered(
    who: str, make: Callable[..., Any], input: Any, dim: Any, index: Any, src: Any
) -> Any:
    """What `make` gives of the operands: of one shape but along the axis, with dimensions."""
    devices = (operand.device for operand in (input, index, src) if isinstance(operand, Tensor))
    device = next(devices, None) or nc.default_device()
    x, places = ag.as_operand(input, device), ag.as_operand(index, device)
    place = axis(who, dim, x.ndim)
    if places.dtype not in _INDICES:
        raise DtypeError(message(who, f"an index of dtype {places.dtype}", "an integer dtype"))
    if isinstance(src, (bool, int, float)):
        src = Tensor.full(places.shape, src, x.dtype, device)
    values = ag.as_operand(src, device)
    _check(who, x, places, values, place)
    if not places.size:
        return ag.clone(x)
    if not x.ndim:
        given = [ag.reshape(operand, (1,)) for operand in (x, places, values)]
        return ag.reshape(make(*given, place), ())
    if values.shape != places.shape:
        values = ag.getitem(values, tuple([slice(size) for size in places.shape]))
    return make(x, places, values, place)


def _check(who: str, x: Any, index: Any, src: Any, dim: int) -> None:
    """Raise DtypeError or ShapeError for operands that do not fit each other."""
    if src.dtype != x.dtype:
        given = f"src of dtype {src.dtype} for {x.dtype}"
        raise DtypeError(message(who, given, "one dtype", "Convert one with astype"))
    fits = index.ndim == x.ndim == src.ndim and all(
        size <= src.shape[i] and (i == dim or size <= x.shape[i])
        for i, size in enumerate(index.shape)
    )
    if index.size and not fits:
        given = f"input {x.shape}, index {index.shape} and src {src.shape}"
        expected = f"an index no larger than src, nor than the input but on axis {dim}"
        raise ShapeError(message(who, given, expected))


OPERATORS = (
    composite(scatter, parts=(PUT_LINES,)),
    composite(scatter_add, parts=(ADD_AT_INDEX,)),
)
