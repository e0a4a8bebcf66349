"""Convolutions and transposed ones in one, two and three dimensions, and their gradients.

Three operators per number of dimensions are each other's gradients: the convolution, the
transposed convolution (the gradient of its input), and the gradient of its weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Kernels, Spec, Tensor, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_conv import conv_arguments as arguments
from netcl_plugin_conv import (
    conv_cpu,
    conv_direct,
    conv_fold,
    conv_geometry,
    conv_gpu,
    conv_patches,
    conv_taps,
    conv_winograd,
)
from netcl_plugin_conv import conv_reference as reference
from netcl_plugin_conv.conv_geometry import Problem

Attrs = Mapping[str, Any]


def _settings(
    who: str,
    dims: int,
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
) -> dict[str, Any]:
    """The attributes that all have, from what was given."""
    strides = arguments.per_dimension(who, "stride", stride, dims, 1)
    dilations = arguments.per_dimension(who, "dilation", dilation, dims, 1)
    pads = arguments.paddings(who, padding, kernel, strides, dilations)
    count = arguments.per_dimension(who, "groups", groups, 1, 1)[0]
    return {"stride": strides, "padding": pads, "dilation": dilations, "groups": count}


def _reach(kernel: Sequence[int], attrs: Attrs) -> list[int]:
    """How much a result is smaller than its padded source, where the stride is 1."""
    pairs = zip(kernel, attrs["dilation"], attrs["padding"], strict=True)
    return [(size - 1) * step - sum(pads) for size, step, pads in pairs]


def _channels_last(out: Spec, channels: int, sizes: Sequence[int], dims: int) -> Spec:
    """The result's form: with a batch if the source has one."""
    return Spec((*out.shape[: out.ndim - dims - 1], channels, *sizes), out.dtype)


def _plus_bias(out: Any, bias: Any, dims: int) -> Any:
    return out if bias is None else out + widened(bias).reshape(-1, *(1,) * dims)


def _bias_gradient(saved: Saved, grad: Any, dims: int) -> Any:
    if saved.inputs[2] is None or not saved.needs[2]:
        return None
    return ag.sum(grad, [i for i in range(grad.ndim) if i != grad.ndim - dims - 1])


def positions_of(dims: int, request: Request) -> int:
    """The elements of one channel of the result, which a vector of a kernel never leaves."""
    size = 1
    for extent in request.output.shape[-dims:]:
        size *= extent
    return size


# -- the convolution -----------------------------------------------------------------------


def _bind(
    dims: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    who = f"conv{dims}d"
    kernel = arguments.kernel_of(who, weight, dims)
    return (x, weight, bias), _settings(who, dims, kernel, stride, padding, dilation, groups)


def _bind_depthwise(
    dims: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
) -> Any:
    """A group for each channel of x."""
    who, shape = "depthwise_conv2d", np.shape(x)
    kernel = arguments.kernel_of(who, weight, dims)
    channels = shape[-dims - 1] if len(shape) > dims else 1
    return (x, weight, bias), _settings(who, dims, kernel, stride, padding, dilation, channels)


def _infer(who: str, dims: int, x: Spec, weight: Spec, bias: Spec | None, **attrs: Any) -> Spec:
    arguments.check_operands(who, dims, x, (weight, bias))
    groups, kernel = attrs["groups"], weight.shape[2:]
    arguments.check_channels(who, x, weight, weight.shape[1] * groups, groups, dims + 1)
    arguments.check_bias(who, bias, weight.shape[0])
    reach = zip(x.shape[-dims:], _reach(kernel, attrs), attrs["stride"], strict=True)
    sizes = [(size - less - 1) // step + 1 for size, less, step in reach]
    what = f"a kernel of {kernel} with {_told(attrs)}"
    arguments.check_sizes(who, sizes, x, what)
    arguments.check_padded(who, x.shape[-dims:], attrs["padding"], what)
    return _channels_last(x, weight.shape[0], sizes, dims)


#: A transposed convolution launches kernels for each remainder by the strides.
_WALKS: Final = 1024


def _told(attrs: Attrs) -> str:
    return ", ".join(f"{name}={value}" for name, value in attrs.items() if name != "groups")


def _reference(dims: int, x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    source, kernels = (Spec(operand.shape, "float64") for operand in (x, weight))
    shape = _infer("", dims, source, kernels, None, **attrs).shape
    return _plus_bias(reference.forward(x, weight, shape, attrs), bias, dims)


def _input_gradient(dims: int, grad: Any, weight: Any, sizes: Sequence[int], attrs: Attrs) -> Any:
    """What the positions of a source of these sizes get: a transposed convolution."""
    counts, kernel = grad.shape[-dims:], weight.shape[2:]
    padding = _padding_back(tuple(sizes), counts, kernel, **attrs)
    return TRANSPOSED[dims - 1](grad, weight, None, **{**attrs, "padding": padding})


@lru_cache(maxsize=1024)
def _padding_back(
    sizes: tuple[int, ...], counts: tuple[int, ...], kernel: tuple[int, ...],
    stride: tuple[int, ...], padding: arguments.Padding, dilation: tuple[int, ...], groups: int,
) -> arguments.Padding:  # fmt: skip
    """The padding of a transposed convolution to so many positions: of the gradient of `counts`."""
    attrs = {"dilation": dilation, "padding": padding}
    reach = zip(sizes, counts, _reach(kernel, attrs), stride, strict=True)
    return _longer(padding, [size - less - 1 - (n - 1) * step for size, n, less, step in reach])


def _longer(padding: arguments.Padding, more: Sequence[int]) -> arguments.Padding:
    """A transposed convolution's padding that leaves so many more positions at each end."""
    pairs = zip(padding, more, strict=True)
    return tuple((before, after - cut) for (before, after), cut in pairs)


def _backward(dims: int, saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, weight, _ = saved.inputs
    attrs = saved.attrs
    gradients: list[Any] = [None, None, _bias_gradient(saved, grad, dims)]
    patches = conv_patches.are_patches(weight.shape[2:], attrs)
    if saved.needs[0] and patches:
        gradients[0] = conv_patches.input_of_patches(dims, grad, weight, x.shape[-dims:])
    elif saved.needs[0]:
        gradients[0] = _input_gradient(dims, grad, weight, x.shape[-dims:], attrs)
    if saved.needs[1] and patches:
        gradients[1] = conv_patches.weight_of_patches(dims, x, grad, weight.shape)
    elif saved.needs[1]:
        gradients[1] = WEIGHTS[dims - 1](x, grad, weight.shape[2:], **attrs)
    return gradients


# -- the transposed convolution ------------------------------------------------------------


def _bind_transposed(
    dims: int,
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    who = f"conv_transpose{dims}d"
    kernel = arguments.kernel_of(who, weight, dims)
    if isinstance(padding, str):
        raise AttributeValueError(message(who, f"padding={padding!r}", "numbers"))
    attrs = _settings(who, dims, kernel, stride, padding, dilation, groups)
    more = arguments.per_dimension(who, "output_padding", output_padding, dims, 0)
    limits = zip(more, attrs["stride"], attrs["dilation"], strict=True)
    if any(length >= max(step, far) for length, step, far in limits):
        given = f"output_padding={more} with {_told(attrs)}"
        raise AttributeValueError(message(who, given, "less than the stride or the dilation"))
    return (x, weight, bias), {**attrs, "padding": _longer(attrs["padding"], more)}


def _infer_transposed(dims: int, x: Spec, weight: Spec, bias: Spec | None, **attrs: Any) -> Spec:
    who = f"conv_transpose{dims}d"
    arguments.check_operands(who, dims, x, (weight, bias))
    groups, kernel = attrs["groups"], weight.shape[2:]
    arguments.check_channels(who, x, weight, weight.shape[0], groups, dims + 1)
    arguments.check_bias(who, bias, weight.shape[1] * groups)
    reach = zip(x.shape[-dims:], _reach(kernel, attrs), attrs["stride"], strict=True)
    sizes = [(size - 1) * step + less + 1 for size, less, step in reach]
    what = f"a kernel of {kernel} with {_told(attrs)}"
    arguments.check_sizes(who, sizes, x, what)
    arguments.check_padded(who, sizes, attrs["padding"], what)
    walks = math.prod(max(1, min(pair)) for pair in zip(attrs["stride"], sizes, strict=True))
    if walks > _WALKS:
        given = f"stride={attrs['stride']} for an output of {tuple(sizes)}"
        raise AttributeValueError(message(who, given, f"a product of strides of at most {_WALKS}"))
    return _channels_last(x, weight.shape[1] * groups, sizes, dims)


def _reference_transposed(dims: int, x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    source, kernels = (Spec(operand.shape, "float64") for operand in (x, weight))
    shape = _infer_transposed(dims, source, kernels, None, **attrs).shape
    return _plus_bias(reference.transposed(x, weight, shape, attrs), bias, dims)


def _backward_transposed(dims: int, saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, weight, _ = saved.inputs
    attrs = saved.attrs
    gradients: list[Any] = [None, None, _bias_gradient(saved, grad, dims)]
    if saved.needs[0]:
        gradients[0] = CONVOLUTIONS[dims - 1](grad, weight, None, **attrs)
    if saved.needs[1]:
        gradients[1] = WEIGHTS[dims - 1](grad, x, weight.shape[2:], **attrs)
    return gradients


# -- the gradient of the weight --------------------------------------------------------------


def _bind_weights(
    dims: int,
    x: Any,
    grad: Any,
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    attrs = _settings(f"conv{dims}d_weight", dims, kernel, stride, padding, dilation, groups)
    return (x, grad), {"kernel": tuple(kernel), **attrs}


def _infer_weights(dims: int, x: Spec, grad: Spec, kernel: Sequence[int], **attrs: Any) -> Spec:
    channels = x.shape[-dims - 1] // attrs["groups"]
    return Spec((grad.shape[-dims - 1], channels, *kernel), x.dtype)


def _reference_weights(dims: int, x: Any, grad: Any, kernel: Sequence[int], **attrs: Any) -> Any:
    shape = (grad.shape[-dims - 1], x.shape[-dims - 1] // attrs["groups"], *kernel)
    return reference.weights(x, grad, shape, attrs)


def _backward_weights(dims: int, saved: Saved, grad: Tensor) -> Sequence[Any]:
    x, above = saved.inputs
    attrs = {name: value for name, value in saved.attrs.items() if name != "kernel"}
    gradients: list[Any] = [None, None]
    if saved.needs[0]:
        gradients[0] = _input_gradient(dims, above, grad, x.shape[-dims:], attrs)
    if saved.needs[1]:
        gradients[1] = CONVOLUTIONS[dims - 1](x, grad, None, **attrs)
    return gradients


# -- the operators ---------------------------------------------------------------------------


def problem_of(request: Request) -> Problem:
    """What a convolution computes."""
    x, weight = request.inputs[:2]
    return conv_geometry.forward(x, weight, request.output, request.attrs)


def problem_of_transposed(request: Request) -> Problem:
    """What a transposed convolution computes."""
    x, weight = request.inputs[:2]
    return conv_geometry.transposed(x, weight, request.output, request.attrs)


def problem_of_weights(request: Request) -> Problem:
    """Whose weight's gradient is computed."""
    x, grad = request.inputs
    return conv_geometry.forward(x, request.output, grad, request.attrs)


def _plan(problem: Any, compute: Any, request: Request) -> Kernels:
    kernels: Kernels = compute(request, problem(request))
    return kernels


def _reject(problem: Any, request: Request) -> str | None:
    route = problem(request)
    if conv_direct.suits(route):
        return None
    return f"{route.groups} groups of {route.outputs} output channels; it is for few in many groups"


def _reject_taps(problem: Any, request: Request) -> str | None:
    return conv_taps.unfit(request, problem(request))


def _reject_filtering(problem: Any, request: Request) -> str | None:
    return conv_winograd.unfit(request, problem(request))


def _gathering(name: str, dims: int, problem: Any) -> tuple[Implementation, ...]:
    """The forms of a convolution or a transposed one."""
    slots: dict[str, Any] = {"epilogue": True, "stretch": partial(positions_of, dims)}
    implementations = _implementations(name, problem, "gather", **slots)
    if dims != 2:
        return implementations
    small = Requirements(device_kinds=("cpu",), reject=partial(_reject_filtering, problem))
    plan = partial(_plan, problem, conv_winograd.gather)
    return (
        *implementations,
        Implementation(name, "minimal filtering", plan, small, priority=1, **slots),
    )


def _reject_folding(request: Request) -> str | None:
    return conv_fold.unfit(request, problem_of_transposed(request))


def folding(dims: int, multiply: conv_fold.Multiply, **more: Any) -> Implementation:
    """A transposed convolution to few channels as a product, whose results are added up.

    `more` is what its requirements have besides the kind of device.
    """
    requires = Requirements(device_kinds=("gpu",), reject=_reject_folding, **more)
    plan, stretch = partial(conv_fold.folded, multiply=multiply), partial(positions_of, dims)
    label = "products added up" if multiply is conv_fold.portable else "tensor cores, added up"
    return Implementation(f"conv_transpose{dims}d", label, plan, requires, 1 + bool(more),
                          epilogue=True, stretch=stretch)  # fmt: skip


def _implementations(
    name: str, problem: Any, function: str, **slots: Any
) -> tuple[Implementation, ...]:
    """The forms of an op: by what a problem is laid out, and who plans it."""

    def form(
        label: str, module: Any, requires: Requirements, priority: int = 0, **more: Any
    ) -> Implementation:
        plan = partial(_plan, problem, getattr(module, function))
        return Implementation(name, label, plan, requires, priority, **slots, **more)

    few = Requirements(device_kinds=("cpu",), reject=partial(_reject, problem))
    gpus = ("gpu", "accelerator")
    taps = Requirements(device_kinds=gpus, reject=partial(_reject_taps, problem))
    return (
        form("packed panels", conv_cpu, Requirements(device_kinds=("cpu",))),
        form("sums over taps", conv_direct, few, priority=1),
        form("tiles in local memory", conv_gpu, Requirements(device_kinds=gpus),
             space=conv_gpu.space(function, problem)),
        form("taps in registers", conv_taps, taps, priority=1),
    )  # fmt: skip


def _weights(dims: int) -> Operator:
    name = f"conv{dims}d_weight_gradient"
    return Operator(
        name=name,
        bind=partial(_bind_weights, dims),
        infer=partial(_infer_weights, dims),
        reference=partial(_reference_weights, dims),
        backward=partial(_backward_weights, dims),
        saves_results=(),
        implementations=_implementations(name, problem_of_weights, "weights"),
        doc="The gradient of a convolution's weight.",
    )


#: Of each convolution's documentation the end.
_FLOATING: Final = "All have one floating dtype; others raise DtypeError, other shapes ShapeError."


def _convolution(name: str, dims: int, bind: Any, arguments: str) -> Operator:
    weight = "3, 1" if bind is _bind_depthwise else "8, 3"
    return Operator(
        name=name,
        bind=partial(bind, dims),
        infer=partial(_infer, name, dims),
        reference=partial(_reference, dims),
        backward=partial(_backward, dims),
        saves=(0, 1),
        saves_results=(),
        implementations=_gathering(name, dims, problem_of),
        parts=(WEIGHTS[dims - 1],),
        doc=f"{name}({arguments}): the cross-correlation of x (N, in, ...) with weight (out, "
        "in / groups, ...), plus bias (out,).\n\n"
        f">>> ag.{name}(nc.rand(2, 3{', 9' * dims}), nc.rand({weight}{', 3' * dims})).shape\n"
        f"(2, {weight[0]}{', 7' * dims})\n\n{_FLOATING}",
    )


def _transposed(dims: int) -> Operator:
    name = f"conv_transpose{dims}d"
    return Operator(
        name=name,
        bind=partial(_bind_transposed, dims),
        infer=partial(_infer_transposed, dims),
        reference=partial(_reference_transposed, dims),
        backward=partial(_backward_transposed, dims),
        saves=(0, 1),
        saves_results=(),
        implementations=(
            *_gathering(name, dims, problem_of_transposed),
            folding(dims, conv_fold.portable),
        ),
        parts=(WEIGHTS[dims - 1],),
        doc=f"{name}(x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, "
        "dilation=1): the gradient of a convolution's input, with weight (in, out / groups, ...)."
        f"\n\n>>> ag.{name}(nc.rand(2, 8{', 5' * dims}), nc.rand(8, 3{', 2' * dims})).shape\n"
        f"(2, 3{', 6' * dims})\n\n{_FLOATING}",
    )


_ARGUMENTS: Final = "x, weight, bias=None, stride=1, padding=0, dilation=1"
WEIGHTS: Final = tuple(_weights(dims) for dims in (1, 2, 3))
CONVOLUTIONS: Final = tuple(
    _convolution(f"conv{dims}d", dims, _bind, f"{_ARGUMENTS}, groups=1") for dims in (1, 2, 3)
)
DEPTHWISE: Final = _convolution("depthwise_conv2d", 2, _bind_depthwise, _ARGUMENTS)
TRANSPOSED: Final = tuple(_transposed(dims) for dims in (1, 2, 3))
OPERATORS: Final = (*CONVOLUTIONS, DEPTHWISE, *TRANSPOSED)
