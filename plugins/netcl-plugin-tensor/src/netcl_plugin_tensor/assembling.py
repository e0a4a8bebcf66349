"""Tensors put together, taken apart and turned."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceError,
    ShapeError,
    message,
)
from netcl_plugin_tensor import replacing
from netcl_plugin_tensor.axes import axis, plain_shape, together, whole


def _listed(who: str, given: Sequence[Any]) -> list[Any]:
    """Tensors that were given one by one or in a list."""
    first = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
    if not first:
        raise ArgumentError(message(who, "no tensors", "at least one"))
    return [ag.as_operand(tensor) for tensor in first]


def _ints(who: str, what: str, given: Any) -> list[int]:
    """Several ints; raises AttributeValueError for anything else."""
    numbers = [whole(item) for item in given] if np.iterable(given) else [None]
    if None in numbers:
        raise AttributeValueError(message(who, f"{what} {given!r}", "an int or several"))
    return numbers  # type: ignore[return-value]  # without None


# -- dimensions --------------------------------------------------------------------------


def _at_least(count: int) -> Callable[..., Any]:
    def at_least(*tensors: Any) -> Any:
        many = len(tensors) != 1 or isinstance(tensors[0], (list, tuple))
        raised = [_raised(x, count) for x in _listed(f"atleast_{count}d", tensors)]
        return tuple(raised) if many else raised[0]

    at_least.__name__ = f"atleast_{count}d"
    at_least.__doc__ = (
        f"Views with at least {count} dimensions, of one tensor or of each of several.\n\n"
        "Missing dimensions have size 1; in three, a vector (n,) is (1, n, 1) and a matrix (n, m) "
        "is (n, m, 1), as in NumPy.\n\n"
        f">>> ag.atleast_{count}d(nc.ones(2)).shape\n{(2,) if count == 1 else (1, 2, 1)[:count]}"
        "\n\nArgs:\n    tensors: One tensor, several, or a list of them."
    )
    return at_least


def _raised(x: Any, count: int) -> Any:
    if x.ndim >= count:
        return x
    if count == 3 and x.ndim:
        return ag.reshape(x, (*[1] * (2 - x.ndim), *x.shape, 1))
    return ag.reshape(x, (*[1] * (count - x.ndim), *x.shape))


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Views of all tensors in the shape that they have together; raises ShapeError for none.

    >>> [x.shape for x in ag.broadcast_tensors(nc.rand(3, 1), nc.rand(4))]
    [(3, 4), (3, 4)]
    """
    given = _listed("broadcast_tensors", tensors)
    if len({x.device for x in given}) > 1:
        devices = " and ".join(dict.fromkeys(x.device.name for x in given))
        raise DeviceError(message("broadcast_tensors", f"tensors on {devices}", "one device"))
    return tuple(ag.expand(x, together("broadcast_tensors", *given)) for x in given)


def sum_to_size(input: Any, *size: Any) -> Any:
    """The sum over those dimensions that broadcasting `size` would make the input's shape.

    >>> ag.sum_to_size(nc.ones(2, 3), 1, 3).tolist()
    [[2.0, 2.0, 2.0]]

    Raises:
        ShapeError: Unless given equal sizes, or 1.
    """
    x = ag.as_operand(input)
    wanted = plain_shape("sum_to_size", size[0] if len(size) == 1 else size)
    lead = x.ndim - len(wanted)
    if lead < 0 or any(b not in (1, a) for a, b in zip(x.shape[lead:], wanted, strict=True)):
        raise ShapeError(message("sum_to_size", f"{x.shape} to {wanted}", "equal sizes, or 1"))
    over = [*range(lead), *(lead + i for i, n in enumerate(wanted) if n != x.shape[lead + i])]
    if not wanted:
        return ag.sum(x)
    return ag.reshape(ag.sum(x, over, True), wanted) if over else x


def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """The plane of two dimensions turned by k times 90 degrees, from the first to the second.

    >>> ag.rot90([[1, 2], [3, 4]]).tolist()
    [[2, 4], [1, 3]]

    Args:
        dims: The plane: two dimensions.

    Raises:
        AttributeValueError: Unless given two dimensions.
    """
    x = ag.as_operand(input)
    places = [axis("rot90", each, x.ndim) for each in dims]
    if len(set(places)) != 2 or len(places) != 2 or whole(k) is None or x.ndim < 2:
        raise AttributeValueError(message("rot90", f"k={k!r}, dims={dims!r}", "two dimensions"))
    turns, (a, b) = k % 4, places
    if turns == 2:
        return ag.flip(x, (a, b))
    if not turns:
        return ag.clone(x)
    return ag.flip(ag.transpose(x, a, b), (a if turns == 1 else b,))


# -- joined ------------------------------------------------------------------------------


def column_stack(tensors: Sequence[Any]) -> Any:
    """Tensors side by side along axis 1; numbers and vectors are columns.

    >>> ag.column_stack([nc.tensor([1, 2]), nc.tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]

    Args:
        tensors: The tensors, in order.
    """
    return ag.cat(
        [ag.reshape(x, (-1, 1)) if x.ndim < 2 else x for x in _listed("column_stack", tensors)], 1
    )


def dstack(tensors: Sequence[Any]) -> Any:
    """Tensors one behind the other along axis 2, each with three dimensions at least.

    Their shapes agree, apart from axis 2.

    >>> ag.dstack([nc.tensor([1, 2]), nc.tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]

    Args:
        tensors: The tensors, in order.
    """
    return ag.cat([_raised(x, 3) for x in _listed("dstack", tensors)], 2)


def block_diag(*tensors: Any) -> Any:
    """A matrix with matrices along its diagonal and zeros elsewhere; vectors are rows.

    >>> ag.block_diag(nc.ones(1, 2), nc.ones(2, 1)).shape
    (3, 3)

    Args:
        tensors: The tensors, in order.

    Raises:
        ShapeError: Unless given at most two dimensions each.
    """
    parts = [_raised(x, 2) for x in _listed("block_diag", tensors)]
    if any(x.ndim > 2 for x in parts):
        shapes = [x.shape for x in parts]
        raise ShapeError(message("block_diag", f"shapes {shapes}", "at most two dimensions each"))
    width, rows, before = sum(x.shape[1] for x in parts), [], 0
    for x in parts:
        rows.append(ag.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return ag.cat(rows, 0)


def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each vector, a row each, the last changing fastest.

    >>> ag.cartesian_prod(nc.tensor([1, 2]), nc.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]

    Args:
        tensors: The tensors, in order.
    """
    given = _listed("cartesian_prod", tensors)
    if len(given) == 1:
        return given[0]
    return ag.stack([ag.reshape(x, (-1,)) for x in ag.meshgrid(*given, indexing="ij")], 1)


def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of r elements of a vector, a row each, in the order of itertools.

    >>> ag.combinations(nc.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]

    Args:
        with_replacement: Whether an element may come several times.

    Raises:
        AttributeValueError: Unless given r of 0 or more, of a vector.
    """
    x = ag.as_operand(input)
    r = -1 if whole(r) is None or r > max(x.size, 1) << 5 else int(r)
    if x.ndim != 1 or r < 0:
        given = f"r={r!r} of shape {x.shape}"
        raise AttributeValueError(message("combinations", given, "r of 0 or more, of a vector"))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(x.size), r)), np.int64).reshape(-1, r)
    if not r or not rows.size:
        return ag.reshape(ag.narrow(x, 0, 0, 0), (0, r) if r else (0,))
    index = nc.tensor(rows.reshape(-1), device=x.device)
    return ag.reshape(ag.index_select(x, 0, index), rows.shape)


# -- taken apart -------------------------------------------------------------------------


def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of so many parts of an axis, whose sizes differ by one at most, or of parts that end at
    places.

    >>> [part.tolist() for part in nc.arange(5).tensor_split(2)]
    [[0, 1, 2], [3, 4]]

    Args:
        indices_or_sections: Into how many parts, or the places of the cuts.

    Raises:
        ShapeError: Unless given at least one.
        AttributeValueError: Unless given at least one.
    """
    x = ag.as_operand(input)
    place = axis("tensor_split", dim, x.ndim)
    if not x.ndim:
        raise ShapeError(message("tensor_split", "a tensor without dimensions", "at least one"))
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.to_host().tolist()
    size, parts = x.shape[place], whole(indices_or_sections)
    if parts is not None and parts < 1:
        raise AttributeValueError(message("tensor_split", f"{parts} parts", "at least one"))
    if parts is not None and parts > max(size, 1) + 2**16:
        # More parts than places are empty, and each is a tensor of Python's memory.
        given = f"{parts} parts of {size} places"
        raise AttributeValueError(message("tensor_split", given, "no more parts than places"))
    if parts is None:
        places = _ints("tensor_split", "parts", indices_or_sections)
        ends = [slice(0, each).indices(size)[1] for each in places]
    else:
        ends = [i * (size // parts) + min(i, size % parts) for i in range(1, parts)]
    bounds = zip([0, *ends], [*ends, size], strict=True)
    return tuple(ag.narrow(x, place, a, max(b - a, 0)) for a, b in bounds)


def _split_along(name: str, least: int, dim: int) -> Callable[..., Any]:
    def split(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        x = ag.as_operand(input)
        if x.ndim < least:
            raise ShapeError(message(name, f"shape {x.shape}", f"at least {least} dimensions"))
        along, parts = 0 if x.ndim == 1 else dim, whole(indices_or_sections)
        if parts is not None and (parts < 1 or x.shape[along] % parts):
            given = f"{parts} parts of {x.shape[along]} places"
            raise AttributeValueError(message(name, given, "equal parts", "Use tensor_split"))
        if parts is None:
            indices_or_sections = _ints(name, "parts", indices_or_sections)
        return ag.tensor_split(x, indices_or_sections, along)  # type: ignore[no-any-return]

    split.__name__ = name
    shape = tuple([1 if axis == dim else 2 for axis in range(3)])
    split.__doc__ = (
        f"Parts of equal size, or ending at places, along axis {dim}: `tensor_split`.\n\n"
        f">>> [part.shape for part in ag.{name}(nc.zeros(2, 2, 2), 2)]\n{[shape, shape]}"
        "\n\nArgs:\n    input: A tensor of enough dimensions.\n"
        "    indices_or_sections: Into how many equal parts, or the places of the cuts.\n\n"
        "Raises:\n    ShapeError: It has too few dimensions.\n"
        "    AttributeValueError: The axis cannot be cut into equal parts."
    )
    return split


# -- diagonals ----------------------------------------------------------------------------


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices whose diagonals are the last dimension, and which are 0 elsewhere.

    >>> ag.diag_embed([1.0, 2.0]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]

    Args:
        input: (..., n).
        offset: Which diagonal: above the main one from 1 on, below it from -1 on.
        dim1: Where the rows stand in the result, which has a dimension more.
        dim2: Where the columns stand.

    Raises:
        AttributeValueError: Unless given a dimension, and an int.
    """
    x = ag.as_operand(input)
    if not x.ndim or whole(offset) is None:
        given = f"shape {x.shape}, offset={offset!r}"
        raise AttributeValueError(message("diag_embed", given, "a dimension, and an int"))
    first, second = (axis("diag_embed", each, x.ndim + 1) for each in (dim1, dim2))
    if first == second:
        raise AttributeValueError(message("diag_embed", f"dims {dim1}, {dim2}", "two dimensions"))
    plain_shape("diag_embed", (x.shape[-1] + abs(offset),) * 2)
    row = ag.pad(x, (max(offset, 0), max(-offset, 0)))
    places = nc.arange(row.shape[-1], device=row.device)
    here = ag.eq(ag.sub(places, ag.reshape(places, (-1, 1))), offset)
    zero = False if row.dtype == "bool" else 0
    matrix = ag.where(here, ag.unsqueeze(row, -2), zero)
    return ag.movedim(matrix, (-2, -1), (first, second))


def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements along a diagonal: `diag` of the flattened tensor.

    >>> ag.diagflat([1.0, 2.0]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]

    Args:
        offset: Which diagonal: above the main one if positive.

    Raises:
        AttributeValueError: An argument has a value that cannot be used.
    """
    x = ag.reshape(input, (-1,))
    if isinstance(offset, int) and (x.size + abs(offset)) ** 2 > 1 << 36:
        expected = "a matrix of at most 2^36 elements"
        raise AttributeValueError(message("diagflat", f"offset={offset}", expected))
    return ag.diag(x, offset)


def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels (axis 1) of groups in turn: the first of each group, then the second of each.

    (Zhang, Zhou, Lin, Sun 2018, arXiv:1707.01083)

    >>> ag.channel_shuffle(nc.rand(1, 4, 2, 2), 2).shape
    (1, 4, 2, 2)

    Raises:
        AttributeValueError: Unless given (N, C, ...), equal groups.
    """
    x, count = ag.as_operand(input), whole(groups)
    if count is None or count < 1 or x.ndim < 3 or x.shape[1] % count:
        given = f"{groups!r} groups of shape {x.shape}"
        raise AttributeValueError(message("channel_shuffle", given, "(N, C, ...), equal groups"))
    n, channels, *rest = x.shape
    parts = ag.reshape(x, (n, count, channels // count, *rest))
    return ag.reshape(ag.transpose(parts, 1, 2), x.shape)


def logspace(start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None,
             device: Any = None, requires_grad: bool = False) -> Any:  # fmt: skip
    """Powers of `base` with exponents from `start` to `end`, evenly spaced, both included.

    >>> ag.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]

    Args:
        steps: How many numbers.
    """
    plain_shape("logspace", steps)
    kind = nc.dtype_name("float32" if dtype is None else dtype)
    if "int" in kind:  # as in PyTorch
        start, end = int(start), int(end)
    with np.errstate(all="ignore"):
        exponents = nc.linspace(start, end, steps, dtype="float64", device="numpy").numpy()
        powers = np.power(np.float64(base), exponents)
    return nc.tensor(powers, dtype=kind, device=device, requires_grad=requires_grad)


OPERATORS: Final = (
    composite(logspace, method=False),
    *(composite(_at_least(count), method=False) for count in (1, 2, 3)),
    composite(broadcast_tensors, method=False),
    composite(sum_to_size),
    composite(rot90, ("input",)),
    composite(column_stack, method=False),
    composite(dstack, method=False),
    composite(block_diag, method=False),
    composite(cartesian_prod, method=False),
    composite(combinations, ("input",), method=False),
    composite(tensor_split, ("input",)),
    *(composite(_split_along(name, least, dim), ("input",))
      for name, least, dim in (("hsplit", 1, 1), ("vsplit", 2, 0), ("dsplit", 3, 2))),
    composite(diag_embed, ("input",)),
    composite(diagflat, ("input",)),
    *replacing.OPERATORS,
    composite(channel_shuffle, ("input",), method=False),
)  # fmt: skip
