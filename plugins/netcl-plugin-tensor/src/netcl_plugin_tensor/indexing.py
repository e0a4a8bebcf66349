"""Basic indexing: ints, slices, None, Ellipsis and a bool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from netcl_core import Tensor
from netcl_core.autograd import Geometry, Operator
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_plugin_tensor.axes import shape_of

#: ("int", position) | ("slice", start, step, length) | ("new", size), one per entry of the index;
#: a new dimension has size 1, that of False 0
Entry = tuple[Any, ...]


def _bind(x: Any, index: Any) -> Any:
    return (x,), {"index": normalize(shape_of(x), index)}


def is_basic(index: Any) -> bool:
    """Whether an index has no array, list or tensor but single elements of them."""
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, (list, range)) or (_is_array(item) and item.ndim) for item in items):
        return False
    masks = sum(_is_mask(item) for item in items)
    others = any(not _is_mask(item) and hasattr(item, "__index__") for item in items)
    return masks < 2 and not (masks and others)


def _is_mask(item: Any) -> bool:
    return isinstance(item, (bool, np.bool_)) or (_is_array(item) and item.dtype == "bool")


def normalize(shape: Sequence[int], index: Any) -> tuple[Entry, ...]:
    """A hashable form of an index, checked; raises ShapeError or ArgumentError.

    A bool is a mask without dimensions, as in NumPy: a new dimension of size 1 or, if it is
    False, of size 0.
    """
    items = [_plain(item) for item in (index if isinstance(index, tuple) else (index,))]
    used = sum(item is not Ellipsis and not isinstance(item, tuple) for item in items)
    if used > len(shape) or sum(item is Ellipsis for item in items) > 1:
        raise ShapeError(
            message("getitem", f"{index!r} for shape {tuple(shape)}", f"{len(shape)} entries")
        )
    _check_masks(items)
    place = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    items[place : place + 1] = [slice(None)] * (len(shape) - used)
    entries: list[Entry] = []
    axis = 0
    for item in items:
        if isinstance(item, tuple):
            entries.append(item[:2])
            continue
        entries.append(_entry(item, shape[axis], axis))
        axis += 1
    return tuple(entries)


def _plain(item: Any) -> Any:
    """An entry; what takes no dimension of x as the new one, and whether it is a mask."""
    if item is None:
        return "new", 1, False
    if isinstance(item, (bool, np.bool_)) or (_is_array(item) and item.dtype == "bool"):
        if _is_array(item) and item.ndim:
            raise _unknown(f"a mask of shape {tuple(item.shape)}")
        return "new", int(bool(item)), True
    if _is_array(item) and item.ndim:
        raise _unknown(f"an index of shape {tuple(item.shape)}")
    return item


def _is_array(item: Any) -> bool:
    return isinstance(item, (Tensor, np.ndarray))


def _check_masks(items: Sequence[Any]) -> None:
    """Raise ArgumentError for more than one bool, or one beside an int: NumPy broadcasts them."""
    masks = sum(isinstance(item, tuple) and item[2] for item in items)
    others = any(not isinstance(item, (tuple, slice)) and item is not Ellipsis for item in items)
    if masks > 1 or (masks and others):
        raise _unknown("several bools" if masks > 1 else "a bool beside an int")


def _unknown(given: str) -> ArgumentError:
    expected = "ints, slices, None, Ellipsis or one bool beside slices"
    remedy = "Pick elements by an index tensor with ag.index_select or ag.gather"
    return ArgumentError(message("getitem", given, expected, remedy))


def _entry(item: Any, size: int, axis: int) -> Entry:
    if isinstance(item, slice):
        try:
            start, stop, step = item.indices(size)
        except TypeError:
            raise _unknown(f"{item}") from None
        return "slice", start, step, len(range(start, stop, step))
    if not hasattr(item, "__index__"):
        raise _unknown(f"an index of type {type(item).__name__}")
    number = item.__index__()
    if not -size <= number < size:
        raise IndexError(message("getitem", f"{number} on axis {axis}", f"-{size} to {size - 1}"))
    return "int", number % size


def _view(x: Geometry, index: Sequence[Entry]) -> Geometry:
    sizes: list[int] = []
    strides: list[int] = []
    offset, axis = x.offset, 0
    for entry in index:
        if entry[0] == "new":
            sizes.append(entry[1])
            strides.append(x.shape[axis] * x.strides[axis] if axis < len(x.shape) else 1)
            continue
        stride = x.strides[axis]
        axis += 1
        offset += entry[1] * stride
        if entry[0] == "slice":
            sizes.append(entry[3])
            strides.append(entry[2] * stride)
    return Geometry(tuple(sizes), tuple(strides), offset)


BASIC: Final = Operator(
    "basic_getitem",
    _bind,
    view=_view,
    doc="basic_getitem(x, index): x[index] for ints, slices, None, Ellipsis and a bool.",
)
