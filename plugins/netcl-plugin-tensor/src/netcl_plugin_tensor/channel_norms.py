"""Normalisation per channel or group of channels: batch_norm, group_norm, instance_norm."""

from __future__ import annotations

import functools
import math
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import AutogradPrimitive, composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_tensor.axes import ndim_of, shape_of
from netcl_plugin_tensor.norm_runs import NORM_RUNS


@functools.cache
def _standard() -> AutogradPrimitive:
    """What is computed with given statistics, element by element."""
    return AutogradPrimitive.from_template("tensor/standard_elements.cl.j2")


def _checked(who: str, x: Any, groups: int = 1) -> tuple[int, ...]:
    """The shape of x; raises ShapeError unless it is (N, C, ...) with channels in whole groups."""
    shape = shape_of(x)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        words = f" in {groups} groups" if groups != 1 else ""
        expected = "x (N, C, ...) with C a multiple of the groups" if words else "x (N, C, ...)"
        raise ShapeError(message(who, f"x of shape {shape}{words}", expected))
    return shape


def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """x (N, C, ...) standardised within groups of channels of each sample (Wu, He 2018).

    >>> ag.group_norm(nc.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 1).numpy().round(2)
    array([[[-1.34, -0.45],
            [ 0.45,  1.34]]], dtype=float32)

    Args:
        x: Of shape (N, C, ...), floating.
        num_groups: The number of groups, a divisor of C.
        weight, bias: Of shape (C,), or None: the result is `h * weight + bias`.
        eps: Added to the (biased) variance.

    Raises:
        ShapeError: C is no multiple of the groups, or weight or bias does not have one number
            per channel.
    """
    _checked("group_norm", x, num_groups)
    return NORM_RUNS(x, weight, bias, num_groups, eps)[0]


def instance_norm(
    x: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Each channel of each sample of x (N, C, ...) standardised (Ulyanov et al. 2016).

    Running statistics move by the mean over the samples of each one's mean and unbiased variance,
    and are used in place of the sample's where `use_input_stats` is False. The other arguments
    are as of `batch_norm`.

    >>> ag.instance_norm(nc.rand(2, 3, 4, 4)).shape
    (2, 3, 4, 4)

    Raises:
        ShapeError: Unless given 2 or more values a channel.
        ArgumentError: Unless given a tensor.
    """
    count, channels, *rest = _checked("instance_norm", x)
    if not use_input_stats:
        return _by_running("instance_norm", x, running_mean, running_var, weight, bias, eps)
    size = math.prod(rest)
    if size < 2:
        given = f"x of shape {(count, channels, *rest)}"
        raise ShapeError(message("instance_norm", given, "2 or more values a channel"))
    for name, kept in (("running_mean", running_mean), ("running_var", running_var)):
        if not (kept is None or isinstance(kept, Tensor)):
            given, remedy = f"a {type(kept).__name__} for {name}", "It is changed: nc.tensor(...)"
            raise ArgumentError(message("instance_norm", given, "a tensor", remedy))
    values, *statistics = NORM_RUNS(x, weight, bias, channels, eps)
    if running_mean is not None and running_var is not None:
        factors = (1.0, size / (size - 1))
        with ag.no_grad():
            for running, statistic, factor in zip(
                (running_mean, running_var), statistics, factors, strict=True
            ):
                batch = ag.mul(
                    ag.mean(ag.reshape(statistic, (count, channels)), 0), momentum * factor
                )
                running.copy_(ag.add(ag.mul(running, 1 - momentum), batch))
    return values


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    batches: Any = None,
) -> Any:
    """x (N, C, ...) standardised per channel (Ioffe, Szegedy 2015, arXiv:1502.03167).

    >>> mean, variance = nc.tensor([0.0]), nc.tensor([1.0])
    >>> ag.batch_norm(nc.tensor([[1.0], [3.0]]), mean, variance, training=True).numpy().round(2)
    array([[-1.],
           [ 1.]], dtype=float32)
    >>> mean.numpy().round(2), variance.numpy().round(2)  # moved by a tenth
    (array([0.2], dtype=float32), array([1.1], dtype=float32))

    Args:
        x: Of shape (N, C, ...), floating in training.
        running_mean, running_var: Tensors of shape (C,), or None. Training moves them in place:
            `running = (1 - momentum) * running + momentum * batch`, the variance unbiased;
            otherwise they are used in place of the batch's.
        weight, bias: Of shape (C,), or None: the result is `h * weight + bias`.
        training: Whether the batch's statistics are used.
        momentum: A number, or a tensor without dimensions, which a captured step reads anew.
        eps: Added to the (biased) variance.
        batches: An int64 tensor without dimensions, or None. Training with running statistics
            adds 1 to it in place, by the same kernel.

    Raises:
        ShapeError: x has no channels, or training has one value a channel. Of an empty x the result
            is empty, and the running statistics stay.
        AttributeValueError: eps is not above 0 in training.
        ArgumentError: there are no running statistics outside training.
    """
    operands, attrs = _bind_batch_norm(
        x, running_mean, running_var, weight, bias, training, momentum, eps, batches
    )
    return _batch_norm(*operands, **attrs)


def _bind_batch_norm(
    x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: Any = 0.1, eps: float = 1e-5, batches: Any = None,
) -> Any:  # fmt: skip
    if training and not eps > 0:
        given = f"eps={eps!r} in training"
        raise AttributeValueError(message("batch_norm", given, "a number above 0"))
    rate = momentum if isinstance(momentum, Tensor) else None
    number = 0.0 if rate is not None else float(momentum)
    attrs = {"training": bool(training), "momentum": number, "eps": float(eps)}
    return (x, running_mean, running_var, weight, bias, rate, batches), attrs


def _batch_norm(
    x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, rate: Any, batches: Any,
    training: bool, momentum: float, eps: float,
) -> Any:  # fmt: skip
    if isinstance(x, Tensor) and not x.size:
        if training and batches is not None:
            with ag.no_grad():
                batches.copy_(ag.add(batches, 1))
        return _of_nothing(x, weight, bias)
    shape = _checked("batch_norm", x)
    if not training:
        return _by_running("batch_norm", x, running_mean, running_var, weight, bias, eps)
    count = shape[0] * math.prod(shape[2:])
    if count < 2:
        given = f"x of shape {shape} in training"
        raise ShapeError(message("batch_norm", given, "2 or more values a channel"))
    running = (running_mean, running_var)
    if running_mean is None or running_var is None:
        return NORM_RUNS(x, weight, bias, 0, eps)[0]
    values, _, _, *moved = NORM_RUNS(
        x, weight, bias, 0, eps, *running, momentum if rate is None else rate, batches
    )
    targets = running if batches is None else (*running, batches)
    with ag.no_grad():
        for target, source in zip(targets, moved, strict=True):
            ag.hand_over(target, source)
    return values


def _of_nothing(x: Tensor, weight: Any, bias: Any) -> Any:
    """An empty batch, with gradients of zeros; the running statistics stay as they are."""
    norm: Any = ag.clone(x)
    for join, operand in ((ag.mul, weight), (ag.add, bias)):
        if operand is not None and operand.size:
            norm = join(norm, ag.getitem(operand, 0))
    return norm


def _by_running(
    who: str, x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float
) -> Any:
    """Standardised with given statistics: one elementwise op, which the JIT may fuse."""
    if running_mean is None or running_var is None:
        given = "no running statistics outside training"
        raise ArgumentError(message(who, given, "running_mean and running_var"))
    tail = (-1, *[1] * (ndim_of(x) - 2))
    mean, variance = ag.reshape(running_mean, tail), ag.reshape(running_var, tail)
    scale = 1.0 if weight is None else ag.reshape(weight, tail)
    shift = 0.0 if bias is None else ag.reshape(bias, tail)
    norm = _standard()(x, mean, variance, scale, shift, eps)
    narrow = isinstance(x, Tensor) and x.dtype in ("float16", "bfloat16")
    return norm.astype(x.dtype) if narrow and norm.dtype != x.dtype else norm


AFFINE = ("x", "weight", "bias")


def operators() -> tuple[ag.Operator, ...]:
    """The records; made when the plugin registers, since templates are read for them."""
    return (
        composite(group_norm, AFFINE, parts=(NORM_RUNS,)),
        composite(
            batch_norm,
            bind=_bind_batch_norm,
            decomposition=_batch_norm,
            parts=(NORM_RUNS, _standard()),
        ),
        composite(
            instance_norm,
            ("x", "running_mean", "running_var", "weight", "bias"),
            parts=(NORM_RUNS, _standard()),
        ),
    )
