"""Whether any or all elements are true."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_plugin_tensor.axes import Dims, axes, shape_of


def any(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether any element over one, several or all axes is not 0; NaN is not. Of none: False.

    >>> ag.any([[0, 1], [0, 0]], dim=1).tolist()
    [True, False]

    Args:
        x: A tensor of any dtype.
        dim: The axes; None: all.
        keepdim: Whether the axes stay, with size 1.

    The result is bool, of a uint8 tensor uint8 as in PyTorch.
    """
    return _judged("any", ag.amax, ag.ne, x, dim, keepdim)


def all(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether all elements over one, several or all axes are not 0; arguments as of `any`.

    Of no elements: True.

    >>> ag.all([[1, 1], [1, 0]], dim=1).tolist()
    [True, False]
    """
    return _judged("all", ag.amin, ag.eq, x, dim, keepdim)


def _judged(
    who: str,
    reduce: Callable[..., Any],
    of_none: Callable[..., Any],
    x: Any,
    dim: Dims,
    keepdim: bool,
) -> Any:
    shape = shape_of(x)
    over = axes(who, dim, len(shape))
    holds = ag.ne(x, 0)
    if math.prod(shape[i] for i in over):
        holds = reduce(holds, over, keepdim)
    else:
        holds = of_none(ag.sum(holds, over, keepdim), 0)
    return holds.astype("uint8") if getattr(x, "dtype", "") == "uint8" else holds


OPERATORS = (composite(any, ("x",)), composite(all, ("x",)))
