"""Normalisation: layer_norm, rms_norm, group_norm, batch_norm, with PyTorch's signatures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Operand
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import shape_of
from netcl_plugin_tensor.norm_rows import EPSILON, NORM_ROWS_BACKWARD, rows_implementation
from netcl_plugin_tensor.statistics import variance, wide_dtype


def _trailing(who: str, x: Any, normalized_shape: Any) -> tuple[int, ...]:
    """The axes that `normalized_shape` covers; raises ShapeError if it is not x's end."""
    given = normalized_shape
    sizes = (given,) if isinstance(given, int) else tuple(given)
    shape = shape_of(x)
    if not sizes or shape[len(shape) - len(sizes) :] != sizes:
        raise ShapeError(
            message(who, f"normalized_shape {sizes} for x of shape {shape}", "the last sizes of x")
        )
    return tuple(range(len(shape) - len(sizes), len(shape)))


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    scaled = x if weight is None else ag.mul(x, weight)
    return scaled if bias is None else ag.add(scaled, bias)


def _widened(x: Any, function: Callable[[Any], Any]) -> Any:
    """A function computed in float32 for float16: there squares and 1/std^3 overflow."""
    if not isinstance(x, Operand) or x.dtype != "float16":
        return function(x)
    return function(x.astype("float32")).astype("float16")


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
    """`(x - mean) / sqrt(var + eps) * weight + bias` over the last axes (Ba et al. 2016)."""
    over = _trailing("layer_norm", x, normalized_shape)
    return _affine(_standardize(x, over, eps), weight, bias)


def rms_norm(
    x: Any, normalized_shape: int | Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """`x / sqrt(mean(x^2) + eps) * weight` over the last axes (Zhang, Sennrich 2019).

    `eps` None: the machine epsilon of x's dtype.
    """
    over = _trailing("rms_norm", x, normalized_shape)
    if eps is None and x.dtype not in EPSILON:
        raise DtypeError(message("rms_norm", f"a {x.dtype} tensor", "a floating dtype"))
    added = EPSILON[x.dtype] if eps is None else eps

    def scaled(x: Any) -> Any:
        return ag.mul(x, ag.rsqrt(ag.add(ag.mean(ag.square(x), over, True), added)))

    return _affine(_widened(x, scaled), weight, None)


def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """Standardised within groups of channels of x (N, C, ...) (Wu, He 2018)."""
    shape = shape_of(x)
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(
            message("group_norm", f"x of shape {shape} in {num_groups} groups",
                    "x (N, C, ...) with C a multiple of the groups")
        )  # fmt: skip
    size = math.prod(shape[1:]) // num_groups
    flat = ag.layer_norm(ag.reshape(x, (shape[0], num_groups, size)), size, eps=eps)
    return _per_channel(ag.reshape(flat, shape), weight, bias)


def _per_channel(x: Any, weight: Any, bias: Any) -> Any:
    """An affine map whose weight and bias belong to axis 1."""
    tail = (-1, *[1] * (len(shape_of(x)) - 2))
    weight = None if weight is None else ag.reshape(weight, tail)
    return _affine(x, weight, None if bias is None else ag.reshape(bias, tail))


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Standardised per channel of x (N, C, ...) (Ioffe, Szegedy 2015).

    Training uses the batch's statistics and moves the running ones (Tensors, or None)
    in place: `running = (1 - momentum) * running + momentum * batch`, the variance
    unbiased. Otherwise the running statistics are used.
    """
    shape = shape_of(x)
    if len(shape) < 2:
        raise ShapeError(message("batch_norm", f"x of shape {shape}", "x (N, C, ...)"))
    over = (0, *range(2, len(shape)))
    if not training:
        if running_mean is None or running_var is None:
            given = "no running statistics outside training"
            raise ArgumentError(message("batch_norm", given, "running_mean and running_var"))
        tail = (-1, *[1] * (len(shape) - 2))
        centered = ag.sub(x, ag.reshape(running_mean, tail))
        scale = ag.rsqrt(ag.add(ag.reshape(running_var, tail), eps))
        return _per_channel(ag.mul(centered, scale), weight, bias)
    count = math.prod(shape[i] for i in over)
    if count < 2:
        raise ShapeError(
            message("batch_norm", f"x of shape {shape} in training", "2 or more values a channel")
        )
    if running_mean is not None and running_var is not None:
        _move(running_mean, running_var, x, over, momentum)
    return _per_channel(_standardize(x, over, eps), weight, bias)


def _move(
    running_mean: Any, running_var: Any, x: Any, over: Sequence[int], momentum: float
) -> None:
    with ag.no_grad():
        means, variances = ag.mean(x, over, dtype=wide_dtype(x)), variance("batch_norm", x, over)
        for running, batch in ((running_mean, means), (running_var, variances)):
            moved = ag.add(ag.mul(running, 1 - momentum), ag.mul(batch, momentum))
            running.copy_(moved)


AFFINE = ("x", "weight", "bias")
OPERATORS = (
    composite(
        layer_norm,
        AFFINE,
        implementations=(rows_implementation("layer_norm", centered=True),),
        parts=(NORM_ROWS_BACKWARD,),
    ),
    composite(
        rms_norm,
        ("x", "weight"),
        implementations=(rows_implementation("rms_norm", centered=False),),
        parts=(NORM_ROWS_BACKWARD,),
    ),
    composite(group_norm, AFFINE),
    composite(batch_norm, ("x", "running_mean", "running_var", "weight", "bias")),
)
