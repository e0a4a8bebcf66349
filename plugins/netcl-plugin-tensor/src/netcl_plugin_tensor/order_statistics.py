"""What stands where in the order of a line: kthvalue and median."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis

_KthValue = namedtuple("_KthValue", ("values", "indices"))
_Median = namedtuple("_Median", ("values", "indices"))


def line_of(who: str, input: Any, dim: int) -> tuple[Any, int, int]:
    """The operand, the axis, and how many elements stand along it: at least one."""
    x = ag.as_operand(input)
    place = axis(who, dim, x.ndim)
    size = x.shape[place] if x.ndim else 1
    if not size:
        raise ShapeError(message(who, f"no elements in {x.shape} along axis {dim}", "at least one"))
    return x, place, size


def _picked(ranked: Any, place: int, at: int, keepdim: bool) -> tuple[Any, ...]:
    """The values and indices at one place of sorted lines."""
    if not ranked.values.ndim:
        return tuple(ranked)
    found = [ag.narrow(each, place, at, 1) for each in ranked]
    return tuple(found if keepdim else [ag.squeeze(each, place) for each in found])


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """A named tuple of the k-th smallest `values` along an axis and their `indices` (int64).

    >>> nc.tensor([[5.0, 1.0, 3.0]]).kthvalue(2).values.tolist()
    [3.0]

    Args:
        input: A tensor of any dtype; NaN counts as the largest.
        k: From 1 on.
        dim: The axis.
        keepdim: Whether the axis stays, with size 1.
    """
    x, place, size = line_of("kthvalue", input, dim)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= size:
        raise AttributeValueError(message("kthvalue", f"k={k!r}", f"1 to {size}"))
    return _KthValue(*_picked(ag.sort(x, place), place, k - 1, keepdim))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element of all, or a named tuple of `values` and `indices` along an axis.

    >>> nc.tensor([4.0, 1.0, 3.0, 2.0]).median().item()
    2.0

    Args:
        input: A tensor of any dtype; a line with NaN has NaN.
        dim: The axis; None: all elements.
        keepdim: Whether the axis stays, with size 1.

    Of an even number of elements the lower of the two in the middle, as in PyTorch.
    """
    if dim is None:
        return median(ag.reshape(input, (-1,)), 0).values
    x, place, size = line_of("median", input, dim)
    ranked = ag.sort(x, place)
    middle = _picked(ranked, place, (size - 1) // 2, keepdim)
    if not DTYPES[x.dtype].floating:
        return _Median(*middle)
    last = _picked(ranked, place, size - 1, keepdim)
    spoilt = ag.isnan(last[0])
    return _Median(*(ag.where(spoilt, b, a) for a, b in zip(middle, last, strict=True)))


OPERATORS: Final = (
    composite(kthvalue, ("input",)),
    composite(median, ("input",)),
)
