"""glu: one half of a tensor, let through by the other."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import ShapeError, message
from netcl_plugin_tensor.axes import axis, shape_of


def glu(input: Any, dim: int = -1) -> Any:
    """a * sigmoid(b), where a and b are the halves of a tensor along an axis of even size.

    >>> ag.glu([[1.0, 2.0, 0.0, 0.0]]).tolist()
    [[0.5, 1.0]]

    Args:
        input: A floating tensor.
        dim: The axis.

    (Dauphin, Fan, Auli, Grangier 2017, arXiv:1612.08083)

    Raises:
        ShapeError: Unless given an axis of even size.
    """
    shape = shape_of(input)
    place = axis("glu", dim, len(shape))
    if not shape or shape[place] % 2:
        raise ShapeError(message("glu", f"shape {shape}, axis {dim}", "an axis of even size"))
    lead, half = [slice(None)] * place, shape[place] // 2
    first = ag.getitem(input, (*lead, slice(None, half)))
    second = ag.getitem(input, (*lead, slice(half, None)))
    return ag.mul(first, ag.sigmoid(second))


OPERATORS = (composite(glu, ("input",)),)
