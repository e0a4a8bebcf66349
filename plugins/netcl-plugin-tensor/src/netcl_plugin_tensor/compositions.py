"""PyTorch's second names of ops of this package, and ops that are one or two others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis, ndim_of, shape_of, target_shape, whole

# -- axes --------------------------------------------------------------------------------


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Two dimensions swapped: `transpose`.

    >>> ag.swapaxes(nc.zeros(2, 3, 4), 0, 2).shape
    (4, 3, 2)

    Args:
        axis0: The first dimension.
        axis1: The second one.
    """
    return ag.transpose(input, axis0, axis1)


def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions swapped: `transpose`.

    >>> ag.swapdims(nc.zeros(2, 3, 4), 0, 2).shape
    (4, 3, 2)

    Args:
        dim0: The first dimension.
        dim1: The first dimension of the matrices.
    """
    return ag.transpose(input, dim0, dim1)


def movedim(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Dimensions at other places; the others keep their order.

    >>> ag.movedim(nc.rand(2, 3, 4), 0, -1).shape
    (3, 4, 2)

    Args:
        input: A tensor of any dtype.
        source: Which dimensions.
        destination: Where each of them goes.

    Raises:
        AttributeValueError: Unless given as many of one as of the other.
    """
    ndim = ndim_of(input)
    given, wanted = (_places("movedim", places, ndim) for places in (source, destination))
    if len(given) != len(wanted):
        text = f"{len(given)} dimensions to {len(wanted)} places"
        raise AttributeValueError(message("movedim", text, "as many of one as of the other"))
    moved = dict(zip(wanted, given, strict=True))
    rest = iter(i for i in range(ndim) if i not in given)
    return ag.permute(input, [moved[i] if i in moved else next(rest) for i in range(ndim)])


def moveaxis(input: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Dimensions at other places: `movedim`.

    >>> ag.moveaxis(nc.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)

    Args:
        source: Which dimensions.
        destination: Where they go.
    """
    return ag.movedim(input, source, destination)


def _places(who: str, given: int | Sequence[int], ndim: int) -> list[int]:
    places = [axis(who, place, ndim) for place in ([given] if isinstance(given, int) else given)]
    if len(set(places)) != len(places):
        raise AttributeValueError(message(who, f"the axes {given!r}", "each axis once"))
    return places


def _some(who: str, shape: Sequence[int]) -> None:
    if not shape:
        raise ShapeError(message(who, "a tensor without dimensions", "at least one"))


def ravel(input: Any) -> Any:
    """All elements in one dimension: `reshape(-1)`.

    >>> ag.ravel(nc.rand(2, 3)).shape
    (6,)
    """
    return ag.reshape(input, (-1,))


def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """One dimension as several; one of their sizes may be -1.

    >>> ag.unflatten(nc.rand(2, 6), 1, (2, 3)).shape
    (2, 2, 3)
    """
    shape = shape_of(input)
    place = axis("unflatten", dim, len(shape))
    _some("unflatten", shape)
    lengths = target_shape("unflatten", shape[place : place + 1], sizes)
    return ag.reshape(input, (*shape[:place], *lengths, *shape[place + 1 :]))


def fliplr(input: Any) -> Any:
    """The order of the columns reversed, along dimension 1.

    For tensors of two dimensions or more, of any shape.

    >>> ag.fliplr([[1, 2], [3, 4]]).tolist()
    [[2, 1], [4, 3]]
    """
    return ag.flip(input, (1,))


def flipud(input: Any) -> Any:
    """The order of the rows reversed, along dimension 0; raises ShapeError for a number.

    For tensors of one dimension or more, of any shape.

    >>> ag.flipud([[1, 2], [3, 4]]).tolist()
    [[3, 4], [1, 2]]
    """
    _some("flipud", shape_of(input))
    return ag.flip(input, (0,))


# -- pieces ------------------------------------------------------------------------------


def select(input: Any, dim: int, index: int) -> Any:
    """What stands at one place of an axis, without that axis; raises IndexError for none.

    >>> ag.select(nc.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [3, 4]

    Args:
        index: Which one.
    """
    shape = shape_of(input)
    place, number = axis("select", dim, len(shape)), whole(index)
    size = shape[place] if shape else 0
    if number is None or not -size <= number < size:
        raise IndexError(message("select", f"index={index!r}", f"-{size} to {size - 1}"))
    return ag.getitem(input, (*[slice(None)] * place, number))


def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    """So many places of an axis from one on; raises ShapeError where there are not as many.

    >>> ag.narrow(nc.arange(5), 0, 1, 3).tolist()
    [1, 2, 3]

    Args:
        start: The first index.
        length: How many.
    """
    shape = shape_of(input)
    place = axis("narrow", dim, len(shape))
    first, count = whole(start), whole(length)
    size = shape[place] if shape else 0
    if first is None or count is None or count < 0 or not -size <= first <= size:
        given = f"start={start!r}, length={length!r}"
        raise ShapeError(message("narrow", given, f"a part of {size} places"))
    first += size if first < 0 else 0
    if first + count > size:
        raise ShapeError(message("narrow", f"{first} to {first + count}", f"at most {size}"))
    return ag.getitem(input, (*[slice(None)] * place, slice(first, first + count)))


# -- together ----------------------------------------------------------------------------


def concat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors joined along an axis: `cat`.

    >>> ag.concat([nc.tensor([1, 2]), nc.tensor([3])]).tolist()
    [1, 2, 3]

    Args:
        tensors: The tensors, in order.
    """
    return ag.cat(tensors, dim)


def concatenate(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors joined along an axis: `cat`.

    >>> ag.concatenate([nc.tensor([1, 2]), nc.tensor([3])]).tolist()
    [1, 2, 3]

    Args:
        tensors: The tensors, in order.
    """
    return ag.cat(tensors, dim)


def hstack(tensors: Sequence[Any]) -> Any:
    """Tensors side by side: joined along axis 1, vectors and numbers along axis 0.

    >>> ag.hstack([nc.tensor([1]), nc.tensor([2, 3])]).tolist()
    [1, 2, 3]

    Args:
        tensors: The tensors, in order.
    """
    parts = [ag.reshape(tensor, (-1,)) if not shape_of(tensor) else tensor for tensor in tensors]
    return ag.cat(parts, 0 if parts and ndim_of(parts[0]) == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Any:
    """Tensors one below the other: joined along axis 0, vectors and numbers as rows.

    >>> ag.vstack([nc.tensor([1, 2]), nc.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]

    Args:
        tensors: The tensors, in order.
    """
    rows = [ag.reshape(tensor, (1, -1)) if ndim_of(tensor) < 2 else tensor for tensor in tensors]
    return ag.cat(rows, 0)


def tile(input: Any, dims: Sequence[int]) -> Any:
    """The tensor so often along each axis; axes that are not named come before those that are.

    >>> ag.tile([1, 2], (2,)).tolist()
    [1, 2, 1, 2]

    Args:
        input: A tensor of any dtype.
        dims: How often, 0 or more, the last axis last.

    Raises:
        AttributeValueError: Unless given ints, 0 or more.
    """
    given, shape = [dims] if isinstance(dims, int) else list(dims), shape_of(input)
    times = [whole(item) for item in given]
    if any(each is None or each < 0 for each in times):
        raise AttributeValueError(message("tile", f"dims={dims!r}", "ints, 0 or more"))
    count = max(len(shape), len(times))
    sizes = [1] * (count - len(shape)) + list(shape)
    often = [1] * (count - len(times)) + [each or 0 for each in times]
    spread = [size for pair in zip([1] * count, sizes, strict=True) for size in pair]
    wide = [size for pair in zip(often, sizes, strict=True) for size in pair]
    tiled = ag.expand(ag.reshape(input, spread), wide)
    if all(1 in pair for pair in zip(often, sizes, strict=True)):
        tiled = ag.clone(tiled)  # whose other shape would be a view of the operand
    return ag.reshape(tiled, [a * b for a, b in zip(often, sizes, strict=True)])


def repeat(input: Any, *sizes: Any, repeats: Any = ()) -> Any:
    """The tensor so often along each axis: `x.repeat(2, 3)`, a number for every axis at least.

    >>> ag.repeat(nc.rand(2, 3), 2, 1).shape
    (4, 3)

    Args:
        sizes: How often each dimension is repeated.
        repeats: How often each dimension is repeated.

    Raises:
        AttributeValueError: Unless given one for every axis.
    """
    sizes = sizes or (repeats,)
    times = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    if len(times) < ndim_of(input):
        given = f"{len(times)} numbers for shape {shape_of(input)}"
        raise AttributeValueError(message("repeat", given, "one for every axis", "Use tile"))
    return ag.tile(input, times)


# -- counts and sums ---------------------------------------------------------------------


def count_nonzero(input: Any, dim: Any = None) -> Any:
    """How many elements are not 0, over all axes or some; NaN is not 0.

    >>> ag.count_nonzero([0, 1, 2]).item()
    2
    """
    return ag.sum(ag.ne(input, 0), dim)


def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of what is not NaN; arguments as of `sum`.

    >>> ag.nansum([1.0, float("nan"), 3.0]).item()
    4.0
    """
    return ag.sum(ag.where(ag.isnan(input), 0, input), dim, keepdim, dtype=dtype)


def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of what is not NaN, NaN where there is nothing else; arguments as of `mean`.

    >>> ag.nanmean([1.0, float("nan"), 3.0]).item()
    2.0
    """
    count = ag.sum(ag.logical_not(ag.isnan(input)), dim, keepdim)
    return ag.div(ag.nansum(input, dim, keepdim, dtype=dtype), count)


def softmin(input: Any, dim: int = -1, *, dtype: Any = None) -> Any:
    """exp(-x) / sum(exp(-x)) along an axis: the softmax of -x; arguments as of `softmax`.

    >>> ag.softmin([0.0, 1.0], dim=0).numpy().round(3)
    array([0.731, 0.269], dtype=float32)
    """
    return ag.softmax(ag.neg(input), dim, dtype=dtype)


def rrelu(input: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """x where x > 0, else x times a slope that is drawn for each element.

    >>> ag.rrelu([-4.0, 2.0], 0.25, 0.25, training=True).tolist()
    [-1.0, 2.0]

    Args:
        input: A floating tensor.
        lower: The least slope.
        upper: The largest slope, not less than that.
        training: False: nothing is drawn, and the slope is the mean of the two.

    (Xu, Wang, Chen, Li 2015, arXiv:1505.00853)

    Raises:
        AttributeValueError: Unless given a lower bound up to the upper one.
    """
    if not lower <= upper:
        given = f"lower={lower!r}, upper={upper!r}"
        raise AttributeValueError(message("rrelu", given, "a lower bound up to the upper one"))
    if not training:
        return ag.leaky_relu(input, (lower + upper) / 2)
    x = ag.as_operand(input)
    with ag.no_grad():
        slope = ag.add(ag.mul(ag.rand_like(x), upper - lower), lower)
    return ag.where(ag.le(x, 0), ag.mul(x, slope), x)


OPERATORS = (
    composite(swapaxes, ("input",)),
    composite(swapdims, ("input",)),
    composite(movedim, ("input",)),
    composite(moveaxis, ("input",)),
    composite(ravel, ("input",)),
    composite(unflatten, ("input",)),
    composite(fliplr, ("input",)),
    composite(flipud, ("input",)),
    composite(select, ("input",)),
    composite(narrow, ("input",)),
    composite(concat, method=False),
    composite(concatenate, method=False),
    composite(hstack, method=False),
    composite(vstack, method=False),
    composite(tile, ("input",)),
    composite(repeat),
    composite(count_nonzero, ("input",)),
    composite(nansum, ("input",)),
    composite(nanmean, ("input",)),
    composite(softmin, ("input",)),
    composite(rrelu),
)
