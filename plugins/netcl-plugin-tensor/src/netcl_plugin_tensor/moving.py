"""Elements moved round, cut to a triangle, and their differences: roll, tril, triu, diff."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Kernels, Tensor
from netcl_core.autograd import Geometry, Implementation, Operator, Request, Saved, composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor import strided
from netcl_plugin_tensor.axes import axis, ndim_of, shape_of, whole
from netcl_plugin_tensor.views import strides_of

# -- roll --------------------------------------------------------------------------------


def _bind_roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    shape = shape_of(x)
    steps = _ints("roll", "shifts", shifts)
    if dims is None:
        if len(steps) != 1:
            raise AttributeValueError(message("roll", f"{len(steps)} shifts", "one, or dims too"))
        return (x,), {"shifts": steps, "dims": None}
    over = _ints("roll", "dims", dims)
    if len(steps) != len(over):
        given = f"{len(steps)} shifts and {len(over)} dims"
        raise AttributeValueError(message("roll", given, "as many of one as of the other"))
    total = [0] * len(shape)
    for step, dim in zip(steps, over, strict=True):
        place = axis("roll", dim, len(shape))
        if shape:
            total[place] += step
    kept = tuple(i for i, step in enumerate(total) if shape[i] and step % shape[i])
    return (x,), {"shifts": tuple(total[i] % shape[i] for i in kept), "dims": kept}


def _ints(who: str, name: str, given: Any) -> tuple[int, ...]:
    numbers = [whole(item) for item in (given if isinstance(given, (tuple, list)) else [given])]
    if None in numbers or any(abs(number or 0) >= 1 << 62 for number in numbers):
        raise AttributeValueError(message(who, f"{name}={given!r}", "ints"))
    return tuple(number for number in numbers if number is not None)


def _plan_roll(request: Request) -> Kernels:
    """A copy per block that keeps its elements together: two along each axis that is rolled."""
    x = request.inputs[0]
    shape, shifts, dims = x.shape, request.attrs["shifts"], request.attrs["dims"]
    if dims is None:
        shape, shifts, dims = (x.size,), (shifts[0] % x.size,), (0,)
    strides = strides_of(shape)
    launches = []
    for moved in itertools.product((False, True), repeat=len(dims)):
        sizes, source, target = list(shape), 0, 0
        for dim, shift, wraps in zip(dims, shifts, moved, strict=True):
            sizes[dim] = shift if wraps else shape[dim] - shift
            source += (shape[dim] - shift) * strides[dim] if wraps else 0
            target += 0 if wraps else shift * strides[dim]
        views = [Geometry(tuple(sizes), strides, start) for start in (source, target)]
        if min(sizes, default=1):
            launches.append(strided.copy(request.device, x.dtype, *views))
    return Kernels(tuple(launches))


def _roll_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    return [ag.roll(grad, [-step for step in saved.attrs["shifts"]], saved.attrs["dims"])]


# -- triangles -----------------------------------------------------------------------------


def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of matrices, with zeros above a diagonal.

    >>> ag.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]

    Args:
        input: Matrices (..., rows, columns) of any dtype.
        diagonal: 0 is the main one; above it are positive numbers.
    """
    below, shift = _diagonals("tril", input, diagonal)
    return ag.where(ag.le(below, shift), input, False)


def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of matrices, with zeros below a diagonal; arguments as of `tril`.

    >>> ag.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    below, shift = _diagonals("triu", input, diagonal)
    return ag.where(ag.ge(below, shift), input, False)


def _diagonals(who: str, x: Any, diagonal: Any) -> tuple[Any, int]:
    """The number of each element's diagonal, and that which was asked for."""
    shape, shift = shape_of(x), whole(diagonal)
    if shift is None or not -(2**31) < shift < 2**31:
        raise AttributeValueError(message(who, f"diagonal={diagonal!r}", "an int"))
    if len(shape) < 2:
        raise ShapeError(message(who, f"shape {shape}", "matrices (..., rows, columns)"))
    device = getattr(x, "device", None) or nc.default_device()
    rows, columns = (np.arange(size, dtype=np.int64) for size in shape[-2:])
    row = Tensor.from_host(rows.reshape(-1, 1), device)
    return ag.sub(Tensor.from_host(columns, device), row), shift


# -- differences -----------------------------------------------------------------------------


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, `n` times over; of bools whether they differ.

    >>> ag.diff([1.0, 4.0, 9.0]).tolist()
    [3.0, 5.0]

    Args:
        input: A tensor of any dtype, with dimensions.
        n: How often, 0 or more.
        dim: The axis.
        prepend: What is put before it first, with the same sizes on the other axes.
        append: What is put after it.

    Raises:
        AttributeValueError: Unless given an int, 0 or more.
        ShapeError: Unless given one or more.
    """
    count = whole(n)
    if count is None or count < 0 or isinstance(n, bool):
        raise AttributeValueError(message("diff", f"n={n!r}", "an int, 0 or more"))
    ndim = ndim_of(input)
    if not ndim:
        raise ShapeError(message("diff", "a tensor without dimensions", "one or more"))
    place = axis("diff", dim, ndim)
    if not count:
        return ag.clone(input)
    parts = [part for part in (prepend, input, append) if part is not None]
    difference = ag.cat(parts, place) if len(parts) > 1 else ag.as_operand(input)
    subtract = ag.logical_xor if difference.dtype == "bool" else ag.sub
    lead = [slice(None)] * place
    for _ in range(min(count, difference.shape[place])):
        later = ag.getitem(difference, (*lead, slice(1, None)))
        difference = subtract(later, ag.getitem(difference, (*lead, slice(None, -1))))
    return difference


OPERATORS = (
    Operator(
        name="roll",
        bind=_bind_roll,
        infer=lambda x, shifts, dims: x,
        reference=lambda x, shifts, dims: np.roll(x, shifts[0] if dims is None else shifts, dims),
        backward=_roll_backward,
        saves=(),
        saves_results=(),
        implementations=(Implementation("roll", "strided copies of blocks", _plan_roll),),
        doc=(
            "roll(x, shifts, dims=None): elements moved along axes; what leaves at one end comes "
            "in at the other. Without dims the tensor is rolled as if it were flat."
            "\n\nRaises AttributeValueError unless given a shift for each of the dims."
            "\n\n"
            ">>> ag.roll([1, 2, 3], 1).tolist()\n"
            "[3, 1, 2]"
        ),
    ),
    composite(tril),
    composite(triu),
    composite(diff),
)
