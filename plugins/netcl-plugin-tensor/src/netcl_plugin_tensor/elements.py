"""Single elements of a tensor by their places: picked, and put; every index in the end is one.

An index of ints, arrays, masks and slices is turned into places by NumPy itself, so that it means
what it means there. The places of what lies on the device are read by the host for that; one index
tensor among slices stays there, and so does a mask, of which the host reads how many it picks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved, composite
from netcl_core.errors import ArgumentError, DeviceError, ShapeError, message
from netcl_plugin_tensor import geometry
from netcl_plugin_tensor.compacting import PARTS, masked_places
from netcl_plugin_tensor.indexing import BASIC, is_basic
from netcl_plugin_tensor.selecting import ADD_AT_INDEX, TAKE
from netcl_plugin_tensor.strided import copy
from netcl_plugin_tensor.views import BITS, strides_of, whole

_TEMPLATE: Final = "tensor/elements.cl.j2"
#: Elements per work-item of a CPU.
_CHUNK: Final = 256
_INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")


# -- picking and putting ------------------------------------------------------------------------


def _kernel(request: Request, entry: str, source: int, places: int, out: Spec) -> Kernel:
    count = request.inputs[places].size
    chunk = geometry.chunk(request.device, _CHUNK)
    args = (("in", source), ("in", places), ("out", 0), ("ulong", count), ("ulong", chunk))
    context = {"bits": BITS[DTYPES[out.dtype].itemsize]}
    sizes = geometry.groups(request.device, -(-count // chunk))
    return Kernel(_TEMPLATE, entry, args, *sizes, context)


def _bind_pick(x: Any, places: Any, unique: bool) -> Any:
    return (x, places), {"unique": bool(unique)}


def _plan_pick(request: Request) -> Kernels:
    return Kernels((_kernel(request, "pick_elements", 0, 1, request.output),))


def _pick_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, places = saved.inputs
    if saved.attrs["unique"]:
        zeros = Tensor.zeros(x.shape, x.dtype, grad.device)
        return [PUT(zeros, places, grad), None]
    size = math.prod(x.shape)
    flat = ADD_AT_INDEX(grad, places, 0, "getitem", True, False, (size,))
    return [ag.reshape(flat, x.shape), None]


PICK: Final = Operator(
    name="pick_elements",
    bind=_bind_pick,
    infer=lambda x, places, unique: Spec(places.shape, x.dtype),
    reference=lambda x, places, unique: x.reshape(-1)[places],
    backward=_pick_backward,
    saves=(1,),
    saves_results=(),
    implementations=(Implementation("pick_elements", "element by element", _plan_pick),),
    doc="pick_elements(x, places, unique): elements of x by their places in it, as it were flat.",
)


def _bind_put(x: Any, places: Any, values: Any) -> Any:
    return (x, places, values), {}


def _infer_put(x: Spec, places: Spec, values: Spec) -> Spec:
    if places.shape != values.shape or x.dtype != values.dtype:
        given = f"{places.shape} places for {values}"
        raise ShapeError(message("put_elements", given, f"a {x.dtype} for each place"))
    return x


def _plan_put(request: Request) -> Kernels:
    x = request.inputs[0]
    first = copy(request.device, x.dtype, whole(x.shape), whole(x.shape))
    if not request.inputs[1].size:
        return Kernels((first,))
    return Kernels((first, _kernel(request, "put_elements", 2, 1, x)))


def _reference_put(x: Any, places: Any, values: Any) -> Any:
    out = x.copy()
    out.reshape(-1)[places] = values
    return out


def _put_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    places = saved.inputs[1]
    zeros = Tensor.zeros(places.shape, grad.dtype, grad.device)
    return [PUT(grad, places, zeros), None, PICK(grad, places, True)]


PUT: Final = Operator(
    name="put_elements",
    bind=_bind_put,
    infer=_infer_put,
    reference=_reference_put,
    backward=_put_backward,
    saves=(1,),
    saves_results=(),
    implementations=(Implementation("put_elements", "element by element", _plan_put),),
    doc="put_elements(x, places, values): x with other elements at places, each named once.",
)


# -- from an index to places --------------------------------------------------------------------


def getitem(x: Any, index: Any) -> Any:
    """`x[index]`, as NumPy has it: ints, slices, None, Ellipsis, and arrays or tensors.

    >>> ag.getitem(nc.arange(6).reshape(2, 3), (1, slice(None, 2))).tolist()
    [3, 4]

    Args:
        x: A tensor of any dtype.
        index: One entry, or a tuple of them. Integer arrays, lists and tensors pick along their
            axis and broadcast against each other; bool ones are masks. The result is a copy.

    Raises IndexError for a place outside of x, ShapeError or ArgumentError for no index, and
    DeviceError for a tensor on another device.
    """
    if is_basic(index):
        return BASIC(x, index)
    operand = ag.as_operand(x)
    _check_device("getitem", operand, index)
    along = _single_tensor(operand, index)
    if along is not None:
        return _by_tensor(operand, *along)
    several = _neighbouring_tensors("getitem", operand, index)
    if several is not None:
        return _by_tensor(several.x, several.places, several.dim, (), "found")
    masked = masked_places(operand, index)
    if masked is not None:
        chosen, shape = masked
        return ag.reshape(PICK(operand, chosen, True), shape)
    places, unique = _places("getitem", operand.shape, index)
    flat = PICK(operand, Tensor.from_host(places.reshape(-1), operand.device), unique)
    return ag.reshape(flat, places.shape)


def index_put(x: Any, index: Any, value: Any, accumulate: bool = False) -> Any:
    """`x` with `value` at `x[index]`: what `x[index] = value` makes of it.

    >>> ag.index_put(nc.zeros(3), (nc.tensor([1]),), nc.tensor([5.0])).tolist()
    [0.0, 5.0, 0.0]

    Args:
        x: A tensor of any dtype.
        index: As `x[index]` takes it. Of a place that it names twice the last value stays.
        value: A number or a tensor that broadcasts to the shape of `x[index]`; converted to x's
            dtype.
        accumulate: Whether values are added to what is there, also where a place is named twice.

    Raises what `x[index]` raises, ShapeError for a value that does not broadcast, and DeviceError
    for one on another device.
    """
    operand = ag.as_operand(x)
    _check_device("index_put", operand, (index, value))
    given = ag.as_operand(value, operand.device).astype(operand.dtype)
    several = _neighbouring_tensors("index_put", operand, index)
    if several is not None and several.places.size:
        return ag.reshape(_put_slices(*several, given, accumulate), operand.shape)
    masked = masked_places(operand, index)
    if masked is not None:
        chosen, shape = masked
        return PUT(operand, chosen, ag.reshape(_broadcast(given, shape), (-1,)))
    places, unique = _places("index_put", operand.shape, index)
    values = _broadcast(given, places.shape)
    flat, chosen = places.reshape(-1), ag.reshape(values, (-1,))
    if accumulate:
        index = Tensor.from_host(flat, operand.device)
        added = ag.scatter_add(ag.reshape(operand, (-1,)), 0, index, chosen)
        return ag.reshape(added, operand.shape)
    if not unique:
        last = flat.size - 1 - np.unique(flat[::-1], return_index=True)[1]
        chosen = PICK(chosen, Tensor.from_host(last, operand.device), True)
        flat = flat[last]
    return PUT(operand, Tensor.from_host(flat, operand.device), chosen)


def _check_device(who: str, x: Any, given: Any) -> None:
    """Raise DeviceError if a tensor of an index, or a value, lies on another device than x."""
    if isinstance(given, (tuple, list)):
        for index in given:
            _check_device(who, x, index)
    elif isinstance(given, Tensor) and given.device is not x.device:
        text, remedy = f"{x.device!r} and {given.device!r}", f"Move one with .to('{x.device}')"
        raise DeviceError(message(who, f"operands on {text}", "all on one device", remedy))


def _broadcast(values: Any, shape: tuple[int, ...]) -> Any:
    lead = max(0, values.ndim - len(shape))
    if set(values.shape[:lead]) <= {1}:  # as in NumPy: leading ones fall away
        values = ag.reshape(values, values.shape[lead:])
    pairs = zip(reversed(values.shape), reversed(shape), strict=False)
    if values.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in pairs):
        given = f"a value of shape {values.shape}"
        raise ShapeError(message("index_put", given, f"one that broadcasts to {shape}"))
    return ag.expand(values, shape)


def _single_tensor(x: Any, index: Any) -> tuple[Any, int, tuple[Any, ...]] | None:
    """The one integer tensor of an index among slices, its position, and slices in its place."""
    items = index if isinstance(index, tuple) else (index,)
    tensors = [i for i, item in enumerate(items) if isinstance(item, Tensor)]
    plain = all(isinstance(item, slice) for i, item in enumerate(items) if i not in tensors)
    if len(tensors) != 1 or not plain or len(items) > x.ndim:
        return None
    (place,) = tensors
    tensor = items[place]
    if tensor.dtype not in _INTEGERS or not tensor.ndim:
        return None
    return tensor, place, (*items[:place], slice(None), *items[place + 1 :])


def _by_tensor(x: Any, index: Any, dim: int, around: tuple[Any, ...], who: str = "getitem") -> Any:
    """Slices along an axis by an index tensor that stays on its device."""
    kept = BASIC(x, around) if any(item != slice(None) for item in around) else x
    picked = TAKE(kept, dim, ag.reshape(index, (-1,)), who)
    return ag.reshape(picked, (*kept.shape[:dim], *index.shape, *kept.shape[dim + 1 :]))


class _Slices(NamedTuple):
    """`x` with the indexed axes as one, `dim`, and the places along that."""

    x: Any
    dim: int
    places: Any


def _neighbouring_tensors(who: str, x: Any, index: Any) -> _Slices | None:
    """An index of integers for neighbouring axes, one at least no plain int: places along these.

    Tensors stay on their device, unless the host has sent all of them there itself.
    """
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) == 1:
        items[dots[0] : dots[0] + 1] = [slice(None)] * (x.ndim - len(items) + 1)
    picked = [i for i, item in enumerate(items) if not _is_all(item)]
    if not picked or len(items) > x.ndim or picked[-1] - picked[0] >= len(picked):
        return None
    first, given = picked[0], [items[i] for i in picked]
    if all(isinstance(each, int) for each in given) or not all(map(_is_places, given)):
        return None
    try:
        np.broadcast_shapes(*map(np.shape, given))
    except ValueError:
        return None
    sizes, known = x.shape[first : first + len(given)], [_known(each) for each in given]
    there = all(values is not None for values in known)
    if there:
        places = _placed(who, known, sizes, first, x.device)
    else:
        places = _computed(given, sizes, x.device)
    rest = x.shape[first + len(given) :]
    return _Slices(ag.reshape(x, (*x.shape[:first], math.prod(sizes), *rest)), first, places)


def _known(item: Any) -> Any:
    """An entry of integers as an array; None for a tensor whose values only its device knows."""
    if not isinstance(item, Tensor):
        return np.asarray(_array_of(item) if isinstance(item, list) else item, np.int64)
    values = None if item.value.pending else item.value.known_integers()
    return None if values is None else values.astype(np.int64)


def _placed(who: str, values: Sequence[Any], sizes: Sequence[int], first: int, device: Any) -> Any:
    """The places along axes of these sizes as if they were one, of integers on the host."""
    for axis, (along, size) in enumerate(zip(values, sizes, strict=True), start=first):
        wrong = along[(along < -size) | (along >= size)]
        if wrong.size:
            text = f"index {wrong[0]} is out of bounds for axis {axis} with size {size}"
            raise IndexError(message(who, text, f"{-size} to {size - 1}"))
    together = np.broadcast_arrays(*values)
    wrapped = [np.where(x < 0, x + size, x) for x, size in zip(together, sizes, strict=True)]
    strides = strides_of(sizes)
    places = sum(x * stride for x, stride in zip(wrapped, strides, strict=True))
    return Tensor.from_host(np.asarray(places, np.int64), device)


def _computed(given: Sequence[Any], sizes: Sequence[int], device: Any) -> Any:
    """The same on the device."""
    places = None
    for each, size in zip(given, sizes, strict=True):
        along = ag.as_operand(each, device).astype("int64")
        ag.check_data(_check_places, (along,), size)
        along = ag.where(ag.lt(along, 0), ag.add(along, size), along)
        places = along if places is None else ag.add(ag.mul(places, size), along)
    return places


def _is_all(item: Any) -> bool:
    return isinstance(item, slice) and item == slice(None)


def _is_places(item: Any) -> bool:
    if isinstance(item, (list, range)):
        item = _array_of(item)
    if isinstance(item, (Tensor, np.ndarray)):
        return str(item.dtype) in _INTEGERS
    return isinstance(item, int) and not isinstance(item, bool)


def _check_places(operands: Sequence[Any], size: Any) -> None:
    (places,) = operands
    low, high = places.int_range() if places.size else (0, -1)
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexError(message("getitem", f"the index {wrong}", f"{-size} to {size - 1}"))


def _put_slices(x: Any, dim: int, places: Any, given: Any, accumulate: bool) -> Any:
    """`x` with slices put, or added, at places of an axis."""
    rest = x.shape[dim + 1 :]
    values = _broadcast(given, (*x.shape[:dim], *places.shape, *rest))
    slices = ag.reshape(values, (*x.shape[:dim], places.size, *rest))
    change = ag.index_add if accumulate else ag.index_copy
    return change(x, dim, ag.reshape(places, (-1,)), slices)


def _places(who: str, shape: Sequence[int], index: Any) -> tuple[Any, bool]:
    """The flat places that an index names in a tensor of a shape, and whether none comes twice.

    NumPy indexes the coordinates along each axis, which are views that repeat: only what is picked
    takes memory.
    """
    items = tuple(map(_on_host, index)) if isinstance(index, tuple) else _on_host(index)
    places: Any = np.int64(0)
    try:
        for axis, stride in enumerate(strides_of(shape)):
            along = [1] * len(shape)
            along[axis] = shape[axis]
            steps = np.arange(shape[axis], dtype=np.int64).reshape(along)
            places = places + np.broadcast_to(steps, shape)[items] * stride
        if not shape:
            places = np.zeros((), np.int64)[items]
    except IndexError as error:
        raise IndexError(message(who, f"{error}", f"an index of shape {tuple(shape)}")) from None
    places = np.asarray(places)
    return places, np.unique(places).size == places.size


def _on_host(item: Any) -> Any:
    """An entry as NumPy takes it; raises ArgumentError for what is none."""
    if isinstance(item, Tensor):
        item = item.to_host()
    elif isinstance(item, (list, range)):
        item = _array_of(item)
    if isinstance(item, np.ndarray) and item.dtype.kind not in "biu":
        given = f"an index of dtype {item.dtype}"
        raise ArgumentError(message("getitem", given, "ints or bools"))
    if isinstance(item, np.ndarray) or item is None or item is Ellipsis:
        return item
    if isinstance(item, slice) or hasattr(item, "__index__"):
        return item
    given = f"an index of type {type(item).__name__}"
    expected = "ints, slices, None, Ellipsis, arrays or tensors"
    raise ArgumentError(message("getitem", given, expected))


def _array_of(items: Sequence[Any]) -> Any:
    """A list of an index as an array; raises ArgumentError for one that is ragged."""
    plain = [item.to_host() if isinstance(item, Tensor) else item for item in items]
    try:
        return np.asarray(plain) if plain else np.zeros(0, np.int64)
    except ValueError:
        raise ArgumentError(message("getitem", "a ragged list", "ints or bools")) from None


OPERATORS = (
    composite(getitem, parts=(BASIC, PICK, TAKE, *PARTS)),
    composite(index_put, parts=(PUT, *PARTS)),
)
