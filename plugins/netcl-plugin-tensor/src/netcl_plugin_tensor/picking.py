"""Elements picked by a condition, and changes along one axis at given places."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, message
from netcl_plugin_tensor.axes import axis, plain_shape, together
from netcl_plugin_tensor.compacting import PARTS, true_places
from netcl_plugin_tensor.scattering import PUT_LINES
from netcl_plugin_tensor.selecting import ADD_AT_INDEX


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The places of the elements that are not 0: one per row, or with `as_tuple` per dimension.

    For inputs of any shape and dtype. The result has the shape (n, x.ndim).

    >>> ag.nonzero(nc.tensor([0, 3, 0, 5])).tolist()
    [[1], [3]]

    int64. The host waits for the data, which alone tells how many there are.
    """
    x = ag.as_operand(input)
    places, indices = true_places(x), []
    for size in reversed(x.shape or (1,)):
        indices.append(ag.remainder(places, max(size, 1)))
        places = ag.floor_divide(places, max(size, 1))
    if as_tuple:
        return tuple(reversed(indices))
    return (
        ag.stack(indices[::-1], 1)
        if x.ndim
        else Tensor.zeros((indices[0].size, 0), "int64", x.device)
    )


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` places that are not 0, one per row; `fill_value` where there are fewer.

    For inputs of any shape and dtype. The result has the shape (size, x.ndim).

    >>> ag.nonzero_static(nc.tensor([0, 3, 5]), size=3).tolist()
    [[1], [2], [-1]]

    Raises:
        AttributeValueError: Unless given an int from 0 on.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise AttributeValueError(message("nonzero_static", f"size={size!r}", "an int from 0 on"))
    plain_shape("nonzero_static", (size, 8))
    indices = nonzero(input)
    count = min(indices.shape[0], size)
    return ag.pad(ag.narrow(indices, 0, 0, count), (0, 0, 0, size - count), value=fill_value)


def argwhere(input: Any) -> Any:
    """The places that are not 0, one per row, under NumPy's name: `nonzero`.

    >>> ag.argwhere([[0, 1], [2, 0]]).tolist()
    [[0, 1], [1, 0]]
    """
    return nonzero(input)


def masked_select(input: Any, mask: Any) -> Any:
    """The elements where a mask of bool holds, in one dimension; both are broadcast.

    Raises DtypeError for a mask of another dtype.

    >>> ag.masked_select([1.0, 2.0, 3.0], [True, False, True]).tolist()
    [1.0, 3.0]
    """
    x = ag.as_operand(input)
    chosen = ag.as_operand(mask, x.device)
    if chosen.dtype != "bool":
        remedy = "Compare: mask != 0"
        raise DtypeError(message("masked_select", f"a {chosen.dtype} mask", "bool", remedy))
    shape = together("masked_select", x, chosen) or (1,)
    return ag.getitem(ag.expand(x, shape), ag.expand(chosen, shape))


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Any:
    """`input` with the slices of `source`, times `alpha`, added at places along a dimension.

    >>> ag.index_add([0.0, 0.0], 0, nc.tensor([1, 1]), nc.tensor([2.0, 3.0])).tolist()
    [0.0, 5.0]

    Args:
        dim: The dimension.
        index: int64, one place for each slice of `source`; several may be the same.
        source: Of input's shape, except in `dim`.
        alpha: The factor.
    """
    x = ag.as_operand(input)
    added = ag.as_operand(source, x.device)
    added = added if alpha == 1 else ag.mul(added, alpha)
    places = ag.as_operand(index, x.device)
    place = axis("index_add", dim, x.ndim)
    if _are_slices(x, place, places, added):
        return ag.add(x, ADD_AT_INDEX(added, places, place, "index_add", True, False, x.shape))
    return ag.scatter_add(x, dim, everywhere(places, added, dim), added)


def _are_slices(x: Any, dim: int, places: Any, given: Any) -> bool:
    """Whether there is a slice of x, of its dtype, for each place; what is not gets its error."""
    slices = (*x.shape[:dim], places.size, *x.shape[dim + 1 :])
    fits = bool(x.ndim) and given.shape == slices and given.dtype == x.dtype
    return fits and places.ndim == 1 and places.size > 0 and "int" in places.dtype


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """`input` with the slices of `source` at places along a dimension.

    >>> ag.index_copy([0.0, 0.0], 0, nc.tensor([1]), nc.tensor([5.0])).tolist()
    [0.0, 5.0]

    Args:
        index: The places along the dimension.
    """
    x = ag.as_operand(input)
    copied = ag.as_operand(source, x.device)
    places = ag.as_operand(index, x.device)
    place = axis("index_copy", dim, x.ndim)
    if _are_slices(x, place, places, copied):
        return PUT_LINES(x, places, copied, place, True)
    return ag.scatter(x, dim, everywhere(places, copied, dim), copied)


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """`input` with one value, a number or a tensor without dimensions, at places of an axis.

    >>> ag.index_fill([0.0, 0.0], 0, nc.tensor([1]), 7.0).tolist()
    [0.0, 7.0]

    Args:
        index: The places along the dimension.
    """
    x = ag.as_operand(input)
    places = ag.as_operand(index, x.device)
    place = axis("index_fill", dim, x.ndim)
    shape = [places.size if i == place else n for i, n in enumerate(x.shape)]
    marks = Tensor.ones(tuple(shape), "bool", x.device)
    chosen = ag.index_copy(Tensor.zeros(x.shape, "bool", x.device), dim, places, marks)
    return ag.masked_fill(x, chosen, value)


def everywhere(index: Any, source: Any, dim: int) -> Any:
    """An index along one dimension, for every element of a source."""
    places = ag.as_operand(index, source.device)
    if not source.ndim:
        return ag.reshape(places, ())
    along = [-1 if i == dim % source.ndim else 1 for i in range(source.ndim)]
    return ag.expand(ag.reshape(places, tuple(along)), source.shape)


OPERATORS = (
    composite(nonzero, parts=PARTS),
    *(composite(function) for function in (argwhere, nonzero_static, masked_select, index_fill)),
    composite(index_add, parts=(ADD_AT_INDEX,)),
    composite(index_copy, parts=(PUT_LINES,)),
)
