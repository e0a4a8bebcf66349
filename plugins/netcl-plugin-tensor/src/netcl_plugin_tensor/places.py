"""Elements at places: of the flattened tensor, of masks, along an axis, of triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import (
    AttributeValueError,
    DtypeError,
    ShapeError,
    message,
)
from netcl_plugin_tensor.axes import axis, near, plain_shape, together, whole
from netcl_plugin_tensor.selecting import GATHER, TAKE


def take(input: Any, index: Any) -> Any:
    """Elements of the flattened tensor at places, in the shape of these: `x.flatten()[index]`.

    >>> ag.take(nc.tensor([[1, 2], [3, 4]]), nc.tensor([3, 0])).tolist()
    [4, 1]

    Raises:
        IndexError: An index is out of range.
    """
    x = ag.as_operand(input)
    places = ag.as_operand(index, x.device)
    flat = ag.reshape(x, (-1,))
    _check_places("take", places)
    if not places.size:
        return ag.reshape(ag.narrow(flat, 0, 0, 0), places.shape)
    low, high = places.int_range()
    if low < -x.size or high >= x.size:
        given = f"places from {low} to {high} of {x.size} elements"
        raise IndexError(message("take", given, f"{-x.size} to {x.size - 1}"))
    return ag.reshape(TAKE(flat, 0, ag.reshape(places, (-1,))), places.shape)


def _check_places(who: str, places: Any) -> None:
    if "int" not in places.dtype:
        raise DtypeError(message(who, f"an index of dtype {places.dtype}", "an integer dtype"))


def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """`input` with elements of `source` at places of the flattened tensor, or added to these.

    For tensors of any shape; `index` and `source` have as many elements.

    >>> ag.put(nc.zeros(2, 2), nc.tensor([1, 2]), nc.tensor([5.0, 6.0])).tolist()
    [[0.0, 5.0], [6.0, 0.0]]

    Args:
        index: The places in the flattened tensor.
        accumulate: Whether values are added to what is there.

    Raises:
        ShapeError: Unless given as many of one as of the other.
    """
    x = ag.as_operand(input)
    places, values = ag.as_operand(index, x.device), ag.as_operand(source, x.device)
    _check_places("put", places)
    if places.size != values.size:
        given = f"{places.size} places for {values.size} elements"
        raise ShapeError(message("put", given, "as many of one as of the other"))
    where = ag.reshape(places, (-1,))
    if places.size and places.int_range()[0] < 0:
        where = ag.where(ag.lt(where, 0), ag.add(where, x.size), where)
    change = ag.scatter_add if accumulate else ag.scatter
    flat = change(ag.reshape(x, (-1,)), 0, where, ag.reshape(values, (-1,)))
    return ag.reshape(flat, x.shape)


def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """`input` with elements of `source`, one after the other, where a mask of bool holds.

    The mask is broadcast to the input; there are at least as many elements as it has places.

    >>> mask = nc.tensor([True, False, True])
    >>> ag.masked_scatter(nc.zeros(3), mask, nc.tensor([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]

    Raises:
        DtypeError: Unless given a bool mask, and one dtype.
        ShapeError: Unless given as many at least.
    """
    x = ag.as_operand(input)
    chosen, values = ag.as_operand(mask, x.device), ag.as_operand(source, x.device)
    if chosen.dtype != "bool" or values.dtype != x.dtype:
        given = f"a {chosen.dtype} mask, and {values.dtype} for {x.dtype}"
        raise DtypeError(message("masked_scatter", given, "a bool mask, and one dtype"))
    shape = together("masked_scatter", x, chosen)
    if not values.size:
        return ag.expand(x, shape)
    count = int(np.broadcast_to(chosen.to_host(), shape).sum())
    if count > values.size:
        given = f"{values.size} elements for {count} places"
        raise ShapeError(message("masked_scatter", given, "as many at least"))
    chosen = ag.expand(chosen, shape)
    order = ag.sub(ag.cumsum(ag.reshape(chosen, (-1,)), 0), 1)
    picked = ag.reshape(GATHER(ag.reshape(values, (-1,)), 0, ag.clamp(order, 0)), shape)
    return ag.where(chosen, picked, x)


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Elements at places along an axis, where the index and the tensor are broadcast.

    >>> x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> ag.take_along_dim(x, nc.tensor([[1], [0]]), dim=1).tolist()
    [[2.0], [3.0]]

    Args:
        input: A tensor of any dtype.
        indices: int64, as many dimensions as the input.
        dim: The axis; None: of the flattened tensor.

    Raises:
        ShapeError: Unless given as many dimensions.
    """
    x = ag.as_operand(input)
    places = ag.as_operand(indices, x.device)
    if dim is None:
        return ag.take(x, ag.reshape(places, (-1,)))
    _check_places("take_along_dim", places)
    place = axis("take_along_dim", dim, x.ndim)
    if x.ndim != places.ndim:
        given = f"shapes {x.shape} and {places.shape}"
        raise ShapeError(message("take_along_dim", given, "as many dimensions"))
    ones = [
        tuple(1 if i == place else n for i, n in enumerate(operand.shape))
        for operand in (x, places)
    ]
    lead = together("take_along_dim", *ones)
    if x.ndim:

        def sized(size: int) -> list[int]:
            return [size if i == place else n for i, n in enumerate(lead)]

        x = ag.expand(x, sized(x.shape[place]))
        places = ag.expand(places, sized(places.shape[place]))
    if places.size and places.int_range()[0] < 0:
        places = ag.where(ag.lt(places, 0), ag.add(places, x.shape[place]), places)
    return ag.gather(x, place, places)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Flat places as one tensor of places for each dimension of a shape.

    >>> [each.tolist() for each in ag.unravel_index(nc.tensor([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]

    Args:
        indices: Which elements, in order.

    Raises:
        ShapeError: Unless given ints of at least 1.
    """
    places = ag.as_operand(indices)
    given = shape if np.iterable(shape) else [shape]
    sizes = [whole(size) or 0 for size in given]
    if min(sizes, default=1) < 1:
        raise ShapeError(message("unravel_index", f"the shape {shape!r}", "ints of at least 1"))
    _check_places("unravel_index", places)
    coordinates = []
    for size in reversed(sizes):
        coordinates.append(ag.remainder(places, size))
        places = ag.floor_divide(places, size)
    return tuple(reversed(coordinates))


def _triangle(name: str, places: Callable[..., Any]) -> Callable[..., Any]:
    def indices(
        row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None
    ) -> Any:
        rows, columns = plain_shape(name, (row, col))
        if whole(offset) is None:
            raise AttributeValueError(message(name, f"offset={offset!r}", "an int"))
        corners = np.stack(places(rows, near(offset, rows + columns), columns)).astype(np.int64)
        return nc.tensor(corners, dtype="int64" if dtype is None else dtype, device=device)

    indices.__name__ = name
    indices.__doc__ = (
        f"The places of the {'lower' if name[3] == 'l' else 'upper'} triangle of a matrix: its "
        "rows and its columns, as a tensor (2, n).\n\n"
        f">>> ag.{name}(2, 2).tolist()\n{np.stack(places(2, 0, 2)).tolist()}\n\n"
        "Args:\n    row: How many rows the matrix has.\n    col: How many columns.\n"
        "    offset: The diagonal at which the triangle ends.\n"
        "    dtype: int64 if it is not given.\n    device: Where.\n\n"
        "Raises AttributeValueError unless `offset` is an int."
    )
    return indices


OPERATORS: Final = (
    composite(take, ("input", "index")),
    composite(put, ("input", "index", "source")),
    composite(masked_scatter, ("input", "mask", "source"), parts=(GATHER,)),
    composite(take_along_dim, ("input", "indices")),
    composite(unravel_index, ("indices",), method=False),
    composite(_triangle("tril_indices", np.tril_indices), method=False),
    composite(_triangle("triu_indices", np.triu_indices), method=False),
)
