"""Rows of convolutions, pooling and interpolation, and of their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_plugin_conv.convolution import WEIGHTS

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import Unfit, row
from netcl_plugin_torch.elements import gradients

# -- convolutions --------------------------------------------------------------------------------


def _conv(name: str, dims: int) -> Callable[..., Any]:
    return getattr(ag, f"{name}{dims}d")  # type: ignore[no-any-return]


@row("convolution", "convolution_overrideable")
def convolution(x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Any:  # fmt: skip
    dims = weight.ndim - 2
    stride, padding, dilation = (_each(v, dims) for v in (stride, padding, dilation))
    if transposed:
        more = _each(output_padding, dims)
        return _conv("conv_transpose", dims)(
            x, weight, bias, stride, padding, more, groups, dilation
        )
    return _conv("conv", dims)(x, weight, bias, stride, padding, dilation, groups)


def _each(value: Any, dims: int) -> tuple[int, ...]:
    return tuple(value) if len(value) == dims else tuple(value) * dims


@row("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any = None,
                         padding: Any = None, dilation: Any = None, transposed: bool = False,
                         output_padding: Any = None, groups: int = 1,
                         mask: Any = None) -> Any:  # fmt: skip
    dims = weight.ndim - 2
    lines = [_each(v, dims) for v in (stride, padding, dilation)]
    settings = (*lines, groups, transposed)
    grads: list[Any] = [None, None, None]
    if mask[0]:
        grads[0] = _operand_gradient(settings, x.shape[2:], grad, weight)
    if mask[1]:
        operands = (grad, x) if transposed else (x, grad)
        grads[1] = _weight_gradient(settings, weight.shape[2:], *operands)
    if mask[2]:
        grads[2] = ag.sum(grad, tuple(i for i in range(grad.ndim) if i != 1))
    return tuple(grads)


def _operand_gradient(settings: Any, sizes: Any, grad: Any, weight: Any) -> Any:
    stride, padding, dilation, groups, transposed = settings
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    dims = len(sizes)
    if transposed:
        gradient = _conv("conv", dims)(grad, weight, None, **attrs)
        return gradient[(..., *(slice(0, n) for n in sizes))]
    rows = zip(sizes, grad.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    left = [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, k, s, p, d in rows]
    return _conv("conv_transpose", dims)(grad, weight, None, output_padding=tuple(left), **attrs)


def _weight_gradient(settings: Any, sizes: Any, first: Any, second: Any) -> Any:
    stride, padding, dilation, groups, _ = settings
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return WEIGHTS[len(sizes) - 1](first, second, tuple(sizes), **attrs)


# -- pooling -----------------------------------------------------------------------------


def _pooling(dims: int) -> None:
    @row(f"max_pool{dims}d_with_indices")
    def forward(x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
                ceil_mode: bool = False) -> Any:  # fmt: skip
        sizes = [_each(v, dims) for v in (kernel, stride or kernel, padding, dilation)]
        return tuple(getattr(ag, f"max_pool{dims}d")(x, *sizes, ceil_mode, True))

    @row(f"max_pool{dims}d_with_indices_backward")
    def backward(grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any,
                 ceil_mode: bool, indices: Any) -> Any:  # fmt: skip
        lead, count = x.shape[:-dims], 1
        for n in x.shape[-dims:]:
            count *= n
        zeros = nc.zeros((*lead, count), dtype=x.dtype)
        flat = [ag.reshape(operand, (*lead, -1)) for operand in (indices, grad)]
        return ag.reshape(ag.scatter_add(zeros, -1, *flat), x.shape)

    @row(f"avg_pool{dims}d")
    def average(x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
                count_include_pad: bool = True, divisor_override: Any = None) -> Any:  # fmt: skip
        sizes = [_each(v, dims) for v in (kernel, stride or kernel, padding)]
        more = [] if dims == 1 else [divisor_override]
        return getattr(ag, f"avg_pool{dims}d")(x, *sizes, ceil_mode, count_include_pad, *more)

    @row(f"avg_pool{dims}d_backward")
    def average_backward(grad: Any, x: Any, *settings: Any) -> Any:
        return gradients(lambda x: average(x, *settings), [x], grad)[0]

    @row(f"_adaptive_avg_pool{dims}d")
    def adaptive(x: Any, size: Any) -> Any:
        return getattr(ag, f"adaptive_avg_pool{dims}d")(x, tuple(size))

    @row(f"_adaptive_avg_pool{dims}d_backward")
    def adaptive_backward(grad: Any, x: Any) -> Any:
        return gradients(lambda x: adaptive(x, grad.shape[-dims:]), [x], grad)[0]


for _dims in (2, 3):
    _pooling(_dims)


# -- interpolation ---------------------------------------------------------------------------------


def _upsampling(name: str, mode: str, dims: int, *, corners: bool) -> None:
    def resized(x: Any, size: Any, *settings: Any) -> Any:
        scales = settings[1:] if corners else settings
        for n, scale in zip(x.shape[2:], scales, strict=False):
            if scale is not None and int(n * scale) != n * scale:
                raise Unfit(f"a scale of {scale} for a size of {n}")
        options = {"align_corners": settings[0]} if corners else {}
        return ag.interpolate(x, tuple(size), mode=mode, **options)

    @row(f"{name}_backward")
    def backward(grad: Any, size: Any, shape: Any, *settings: Any) -> Any:
        x = nc.zeros(tuple(shape), dtype=grad.dtype)
        return gradients(lambda x: resized(x, size, *settings), [x], grad)[0]

    row(name)(resized)


for _dims, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _upsampling(f"upsample_nearest{_dims}d", "nearest", _dims, corners=False)
    _upsampling(f"_upsample_nearest_exact{_dims}d", "nearest-exact", _dims, corners=False)
    _upsampling(f"upsample_{_linear}{_dims}d", _linear, _dims, corners=True)
