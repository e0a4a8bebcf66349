"""Normalisation over the last axes: layer_norm and rms_norm, with PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import shape_of
from netcl_plugin_tensor.norm_rows import EPSILON, NORM_ROWS_BACKWARD, rows_implementations
from netcl_plugin_tensor.statistics import wide_dtype


def _trailing(who: str, x: Any, normalized_shape: Any) -> tuple[int, ...]:
    """The axes that `normalized_shape` covers; raises ShapeError if it is not x's end."""
    given = normalized_shape
    shape = shape_of(x)
    if isinstance(given, (Tensor, np.ndarray)):
        said = f"a tensor of shape {given.shape} for normalized_shape"
        remedy = f"A weight comes after it: {who}(x, {given.shape}, weight)"
        raise ArgumentError(message(who, said, "the last sizes of x", remedy))
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if not sizes or shape[len(shape) - len(sizes) :] != sizes:
        raise ShapeError(
            message(who, f"normalized_shape {sizes} for x of shape {shape}", "the last sizes of x")
        )
    return tuple(range(len(shape) - len(sizes), len(shape)))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    scaled = x if weight is None else ag.mul(x, weight)
    return scaled if bias is None else ag.add(scaled, bias)


def _widened(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function computed in float32 for 16-bit floats: there squares and 1/std^3 overflow."""
    wide = wide_dtype(x) if isinstance(x, Tensor) else None
    return function(x) if wide is None else function(x.astype(wide)).astype(x.dtype)


def _standardize(x: Any, over: Sequence[int], eps: float) -> Any:
    def standard(x: Any) -> Any:
        centered = ag.sub(x, ag.mean(x, over, True))
        return ag.mul(centered, ag.rsqrt(ag.add(ag.mean(ag.square(centered), over, True), eps)))

    return _widened(x, standard)


def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the last axes (Ba et al. 2016).

    `x` has any shape that ends in `normalized_shape`, and a floating dtype.

    >>> ag.layer_norm([[1.0, 3.0]], 2).numpy().round(3)
    array([[-1.,  1.]], dtype=float32)

    Args:
        normalized_shape: The last dimensions, that are normalized together.
    """
    over = _trailing("layer_norm", x, normalized_shape)
    return _affine(_standardize(x, over, eps), weight, bias)


def rms_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axes (Zhang, Sennrich 2019).

    `eps` None: the machine epsilon of x's dtype.

    >>> ag.rms_norm([[3.0, 4.0]], 2).numpy().round(3)
    array([[0.849, 1.131]], dtype=float32)

    Args:
        normalized_shape: The last dimensions, that are normalized together.

    Raises:
        DtypeError: Unless given a floating dtype.
    """
    x = ag.as_operand(x)
    over = _trailing("rms_norm", x, normalized_shape)
    if eps is None and x.dtype not in EPSILON:
        raise DtypeError(message("rms_norm", f"a {x.dtype} tensor", "a floating dtype"))
    added = EPSILON[x.dtype] if eps is None else eps

    def scaled(x: Any) -> Any:
        return ag.mul(x, ag.rsqrt(ag.add(ag.mean(ag.square(x), over, True), added)))

    return _affine(_widened(x, scaled), weight, None)


AFFINE = ("x", "weight", "bias")
OPERATORS = (
    composite(
        layer_norm,
        AFFINE,
        implementations=rows_implementations("layer_norm", centered=True),
        parts=(NORM_ROWS_BACKWARD,),
    ),
    composite(
        rms_norm,
        ("x", "weight"),
        implementations=rows_implementations("rms_norm", centered=False),
        parts=(NORM_ROWS_BACKWARD,),
    ),
)
