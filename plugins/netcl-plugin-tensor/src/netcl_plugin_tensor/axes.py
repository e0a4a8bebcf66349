"""Axes, shapes and choices as users give them: negative, several, none; checked and made plain."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from netcl_core.errors import AttributeValueError, ShapeError, message

#: Axes as users give them; None: all.
Dims: TypeAlias = int | Sequence[int] | None
#: No memory that can be addressed holds more elements of any dtype.
_MOST: Final = 1 << 59


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of a tensor, node or host array."""
    return tuple(value.shape) if hasattr(value, "shape") else np.shape(value)


def ndim_of(value: Any) -> int:
    """How many dimensions it has, which a trace may be asked without depending on sizes."""
    return int(value.ndim) if hasattr(value, "ndim") else np.ndim(value)


def plain_shape(who: str, given: Any, least: int = 0) -> tuple[int, ...]:
    """Sizes as a tuple of ints; raises ShapeError unless they are ints of at least `least`."""
    one = hasattr(given, "__index__") and not shape_of(given)
    sizes: list[Any] = [given] if one else list(given) if hasattr(given, "__iter__") else [None]
    chosen = [size for size in map(whole, sizes) if size is not None and size >= least]
    if len(chosen) != len(sizes):
        raise ShapeError(message(who, f"the shape {given!r}", f"ints of at least {least}"))
    if abs(math.prod(chosen)) > _MOST:
        raise ShapeError(message(who, f"the shape {given!r}", f"at most {_MOST} elements"))
    return tuple(chosen)


def whole(given: Any) -> int | None:
    """What Python takes as an index, as an int; None if it is something else."""
    try:
        return operator.index(given)
    except TypeError:  # arrays have the method, and raise
        return None


def one_of(who: str, name: str, given: Any, choices: Sequence[str]) -> None:
    """Raise AttributeValueError for an argument that is none of its choices."""
    if given not in choices:
        expected = " or ".join(map(repr, choices))
        raise AttributeValueError(message(who, f"{name}={given!r}", expected))


def axis(who: str, given: Any, ndim: int) -> int:
    """One axis as a non-negative int; raises AttributeValueError if it is out of range."""
    if type(given) is int and -ndim <= given < ndim:  # almost always
        return given % ndim
    number = None if isinstance(given, bool) else whole(given)
    if number is None:
        raise AttributeValueError(message(who, f"the axis {given!r}", "an int"))
    bound = max(ndim, 1)
    if not -bound <= number < bound:
        raise AttributeValueError(
            message(who, f"axis {number} of a tensor with {ndim} dimensions",
                    f"{-bound} to {bound - 1}")
        )  # fmt: skip
    return number % bound


def axes(who: str, given: Any, ndim: int) -> tuple[int, ...]:
    """Axes as a sorted tuple; None means all."""
    if given is None:
        return tuple(range(ndim))
    if type(given) is int:
        number = axis(who, given, ndim)
        return (number,) if ndim else ()
    items = list(given) if isinstance(given, Sequence) else [given]
    if not items:
        return tuple(range(ndim))
    places = sorted(axis(who, item, ndim) for item in items)
    if len(set(places)) != len(places):
        raise AttributeValueError(message(who, f"the axes {given!r}", "each axis once"))
    return tuple(number for number in places if number < ndim)


def reduced(shape: Sequence[int], over: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    """A shape without the reduced axes, or with 1 in their places."""
    if keepdim:
        return tuple(1 if i in over else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in over)


def target_shape(who: str, shape: Sequence[int], given: Any) -> tuple[int, ...]:
    """The shape of a reshape with at most one -1 filled in; raises ShapeError if it cannot be."""
    wanted = list(plain_shape(who, given, -1))
    sizes = tuple(wanted)
    total, known = math.prod(shape), math.prod(size for size in wanted if size != -1)
    if wanted.count(-1) == 1 and known > 0 and total % known == 0:
        wanted[wanted.index(-1)] = total // known
    if -1 in wanted or math.prod(wanted) != total:
        raise ShapeError(message(who, f"{tuple(shape)} to {sizes}", f"a shape of {total} elements"))
    return tuple(wanted)


def together(who: str, *given: Any) -> tuple[int, ...]:
    """The shape that tensors or shapes broadcast to; raises ShapeError if there is none."""
    shapes = [x if isinstance(x, tuple) else shape_of(x) for x in given]
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise ShapeError(message(who, f"shapes {shapes}", "sizes that are equal or 1")) from None


def near(offset: int, size: int) -> int:
    """A diagonal as far off as NumPy takes it; beyond `size` there is none."""
    return max(min(int(offset), size), -size)
