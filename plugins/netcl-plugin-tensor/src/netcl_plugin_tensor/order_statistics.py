"""What stands where in the order of a line: kthvalue, median, nanmedian."""

from __future__ import annotations

from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import axis
from netcl_plugin_tensor.selection import SELECT


def line_of(who: str, input: Any, dim: int) -> tuple[Any, int, int]:
    """The operand, the axis, and how many elements stand along it: at least one."""
    x = ag.as_operand(input)
    place = axis(who, dim, x.ndim)
    size = x.shape[place] if x.ndim else 1
    if not size:
        raise ShapeError(message(who, f"no elements in {x.shape} along axis {dim}", "at least one"))
    return x, place, size


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """A named tuple of the k-th smallest `values` along an axis and their `indices` (int64).

    >>> nc.tensor([[5.0, 1.0, 3.0]]).kthvalue(2).values.tolist()
    [3.0]

    Args:
        input: A tensor of any dtype; NaN counts as the largest.
        k: From 1 on.
        dim: The axis.
        keepdim: Whether the axis stays, with size 1.

    Raises:
        AttributeValueError: An argument has a value that cannot be used.
    """
    x, place, size = line_of("kthvalue", input, dim)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= size:
        raise AttributeValueError(message("kthvalue", f"k={k!r}", f"1 to {size}"))
    return SELECT(x, k - 1, "kth", place, keepdim)


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
    return SELECT(x, (size - 1) // 2, "median", place, keepdim)


def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element of what is not NaN; arguments and results as of `median`.

    >>> ag.nanmedian([1.0, float("nan"), 3.0]).item()
    1.0
    """
    if dim is None:
        return nanmedian(ag.reshape(input, (-1,)), 0).values
    x, place, size = line_of("nanmedian", input, dim)
    return SELECT(x, (size - 1) // 2, "nanmedian", place, keepdim)


OPERATORS: Final = (
    composite(kthvalue, ("input",), parts=(SELECT,)),
    composite(median, ("input",)),
    composite(nanmedian, ("input",)),
)
