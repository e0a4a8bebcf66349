"""bilinear: y_k = x1^T W_k x2 + b_k."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import ShapeError, message


def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1^T weight_k x2 + bias_k for each k, of the last axes of two inputs.

    >>> ag.bilinear(nc.tensor([1.0, 2.0]), nc.tensor([3.0]), nc.ones(2, 2, 1)).tolist()
    [9.0, 9.0]

    Args:
        input1: (..., in1), floating.
        input2: (..., in2), of equal leading sizes.
        weight: (out, in1, in2).
        bias: (out,), or None.

    Returns (..., out).

    Raises:
        ShapeError: The shapes do not fit.
    """
    first, second, form = (ag.as_operand(x) for x in (input1, input2, weight))
    bias = None if bias is None else ag.as_operand(bias)
    shapes = f"inputs of {first.shape} and {second.shape}, weight of {form.shape}"
    fits = form.ndim == 3 and min(first.ndim, second.ndim) and first.shape[:-1] == second.shape[:-1]
    if not fits or form.shape[1:] != (first.shape[-1], second.shape[-1]):
        expected = "(..., in1), (..., in2) and (out, in1, in2)"
        raise ShapeError(message("bilinear", shapes, expected))
    out, one, two = form.shape
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(message("bilinear", f"bias of shape {tuple(bias.shape)}", f"({out},)"))
    turned = ag.reshape(ag.permute(form, (1, 0, 2)), (one, out * two))
    half = ag.reshape(ag.matmul(first, turned), (*first.shape[:-1], out, two))
    product = ag.squeeze(ag.matmul(half, ag.unsqueeze(second, -1)), -1)
    return product if bias is None else ag.add(product, bias)


OPERATORS = (composite(bilinear, ("input1", "input2", "weight", "bias")),)
