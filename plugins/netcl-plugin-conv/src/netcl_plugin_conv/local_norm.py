"""local_response_norm: elements divided by a power of the mean square of neighbouring channels."""

from __future__ import annotations

import math
from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_conv.windows import floating, whole


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """x / (k + alpha * mean(x^2 over `size` channels around))^beta, of input (N, C, L, ...).

    >>> ag.local_response_norm(nc.tensor([[[1.0], [2.0]]]), 3, alpha=3.0, beta=1.0).tolist()
    [[[0.1666666716337204], [0.3333333432674408]]]

    Args:
        input: Floating, with three dimensions at least.
        size: How many channels, `size // 2` before and the others after; those that are
            not there count as zeros.
        alpha, beta, k: See above.

    (Krizhevsky, Sutskever, Hinton 2012)

    Raises:
        ShapeError: Unless given (N, C, L, ...).
        AttributeValueError: Unless given an int >= 1.
    """
    x = ag.as_operand(input)
    floating("local_response_norm", x)
    if x.ndim < 3:
        given = f"input of shape {x.shape}"
        raise ShapeError(message("local_response_norm", given, "(N, C, L, ...)"))
    if whole(size, 1) is None:
        raise AttributeValueError(message("local_response_norm", f"size={size!r}", "an int >= 1"))
    if not x.size:
        return x
    n, channels, *rest = x.shape
    squares = ag.reshape(ag.square(x), (n, 1, channels, math.prod(rest)))
    padded = ag.pad(squares, (0, 0, size // 2, (size - 1) // 2))
    means = ag.reshape(ag.avg_pool2d(padded, (size, 1), 1), x.shape)
    return ag.div(x, ag.pow(ag.add(ag.mul(means, float(alpha)), float(k)), float(beta)))


OPERATORS = (composite(local_response_norm, ("input",)),)
