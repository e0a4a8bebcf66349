"""Ops of elements that are made of other ops: celu, positive, nan_to_num."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.autograd import Operator, composite
from netcl_core.errors import AttributeValueError, DtypeError, message
from netcl_plugin_elementwise.forms import part


def bitwise_not(x: Any) -> Any:
    """All bits of integers turned round, -x - 1 of signed ones; of bools the logical not."""
    dtype = getattr(x, "dtype", None)
    return ag.logical_not(x) if dtype == "bool" or isinstance(x, bool) else ag.bitwise_xor(x, -1)


def celu(input: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (e^(x / alpha) - 1), whose slope at 0 is 1 for every alpha.

    Args:
        input: A tensor of any shape.
        alpha: Any number but 0; raises AttributeValueError for that.

    (Barron 2017, arXiv:1704.07483)
    """
    if alpha == 0:
        raise AttributeValueError(message("celu", f"alpha={alpha!r}", "any number but 0"))
    return part("continuous_elu")(input, alpha)


def positive(input: Any) -> Any:
    """The tensor itself; raises DtypeError for bools, which have no sign."""
    x = ag.as_operand(input, nc.default_device())
    if x.dtype == "bool":
        raise DtypeError(message("positive", "a bool tensor", "numbers"))
    return x


def nan_to_num(
    input: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Numbers in the places of NaN and the infinities; there the gradient is 0.

    Args:
        input: A tensor of any dtype; one of whole numbers stays as it is.
        nan: What NaN becomes.
        posinf: What infinity becomes; None: the largest number of the dtype.
        neginf: What -infinity becomes; None: the least number of the dtype.
    """
    x = ag.as_operand(input, nc.default_device())
    if not DTYPES[x.dtype].floating:
        return ag.clone(x)
    most = largest(x.dtype)
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    finite = ag.where(ag.isposinf(x), high, ag.where(ag.isneginf(x), low, x))
    return ag.where(ag.isnan(x), 0.0 if nan is None else nan, finite)


def largest(dtype: str) -> float:
    """The largest finite number of a floating dtype."""
    if dtype == "bfloat16":
        return (2 - 2.0**-7) * 2.0**127
    return float(np.finfo(dtype).max)


def operators() -> tuple[Operator, ...]:
    """The records of these ops."""
    return (
        composite(bitwise_not),
        composite(celu, ("input",), parts=(part("continuous_elu"),)),
        composite(positive, ("input",)),
        composite(nan_to_num, ("input",)),
    )
