"""Convolutional layers: Conv1d to Conv3d, and ConvTranspose1d to ConvTranspose3d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.padding import MODES
from netcl_plugin_nn.parameters import owned


class _Convolution(Module):
    """What all have in common; `dims` is the number of spatial dimensions."""

    dims: ClassVar[int]
    padding_modes: ClassVar[tuple[str, ...]] = ("zeros",)
    weight: Tensor
    bias: Tensor | None
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Any
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...]

    def _set_up(
        self,
        sizes: tuple[int, int],
        shape: tuple[int, int],
        settings: dict[str, Any],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        """Check and keep the settings; `shape` is the weight's before the kernel's sizes."""
        who = type(self).__name__
        if min(sizes) < 1 or groups < 1 or any(size % groups for size in sizes):
            given = f"in_channels={sizes[0]}, out_channels={sizes[1]}, groups={groups}"
            raise AttributeValueError(message(who, given, "channels that are multiples of groups"))
        if padding_mode not in self.padding_modes:
            expected = " or ".join(map(repr, self.padding_modes))
            raise AttributeValueError(message(who, f"padding_mode={padding_mode!r}", expected))
        self.in_channels, self.out_channels = sizes
        self.groups = groups
        self.padding_mode = padding_mode
        for name, value in settings.items():
            setattr(self, name, self._each(name, value))
        if min(self.kernel_size) < 1:
            given = f"kernel_size={settings['kernel_size']}"
            raise AttributeValueError(message(who, given, "positive sizes"))
        whole = (*shape, *self.kernel_size)
        self.weight = owned(Tensor.empty(whole, dtype, device))
        self.bias = owned(Tensor.empty((sizes[1],), dtype, device)) if bias else None
        self.reset_parameters()

    def _each(self, name: str, value: Any) -> Any:
        """A number for each dimension; 'same' and 'valid' as they are."""
        if isinstance(value, str):
            return value
        given = tuple(value) if isinstance(value, Sequence) else (value,) * self.dims
        if len(given) != self.dims:
            expected = f"one number, or {self.dims}"
            raise AttributeValueError(message(type(self).__name__, f"{name}={value!r}", expected))
        return given

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform in +-1/sqrt(fan_in), as in PyTorch."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(init.fans(self.weight)[0])
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """The settings, those that are not the default ones by name."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        usual = {"padding": 0, "dilation": 1, "output_padding": 0}
        for name, number in usual.items():
            value = getattr(self, name, (number,) * self.dims)
            if value != (number,) * self.dims:
                text += f", {name}={value}"
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        mode = self.padding_mode
        return text + (f", padding_mode={mode}" if mode != "zeros" else "")


class _Conv(_Convolution):
    """The arguments of the plain ones."""

    padding_modes = ("zeros", *MODES)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        settings = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
        }  # fmt: skip
        sizes = (in_channels, out_channels)
        shape = (out_channels, in_channels // max(1, groups))
        self._set_up(sizes, shape, settings, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, in_channels, ...) or without N; see `ag.conv2d`."""
        convolve, padding = getattr(ag, f"conv{self.dims}d"), self.padding
        if self.padding_mode != "zeros":
            input = ag.pad(input, self._around(), self.padding_mode)
            padding = 0
        return convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _around(self) -> list[int]:
        """The padding before and after each axis, the last axis first."""
        if self.padding == "valid":
            return [0] * (2 * self.dims)
        if self.padding == "same":
            reach = [
                far * (size - 1) for far, size in zip(self.dilation, self.kernel_size, strict=True)
            ]
            return [half for width in reversed(reach) for half in (width // 2, width - width // 2)]
        return [pad for pad in reversed(self.padding) for _ in range(2)]


class Conv1d(_Conv):
    """A convolution over (N, C, L); see Conv2d.

    >>> nn.Conv1d(3, 8, 5, stride=2)(nc.rand(2, 3, 21)).shape
    (2, 8, 9)

    Its arguments are as of `Conv2d`.
    """

    dims = 1


class Conv2d(_Conv):
    """A convolution over (N, C, H, W): the cross-correlation with `weight`, plus `bias`.

    `weight` has shape (out_channels, in_channels / groups, *kernel_size), `bias` (out_channels,) or
    is None; both start uniform in +-1/sqrt(fan_in).

    >>> layer = nn.Conv2d(3, 8, 3, padding="same")
    >>> layer(nc.Tensor.zeros((2, 3, 5, 7))).shape
    (2, 8, 5, 7)

    Args:
        in_channels, out_channels: Channels of the input and of the result.
        kernel_size, stride, padding, dilation: A number, or one for each dimension; `padding`
            may be 'same' or 'valid', too.
        groups: How many parts the channels are split into, which are convolved alone.
        bias: Whether there is one.
        padding_mode: 'zeros', 'reflect', 'replicate' or 'circular': what stands in the padding.

    Raises AttributeValueError for settings that do not fit each other.
    """

    dims = 2


class Conv3d(_Conv):
    """A convolution over (N, C, D, H, W); see Conv2d.

    >>> nn.Conv3d(1, 4, 3, padding=1)(nc.rand(2, 1, 5, 6, 7)).shape
    (2, 4, 5, 6, 7)

    Its arguments are as of `Conv2d`.
    """

    dims = 3


class _ConvTranspose(_Convolution):
    """The arguments of the transposed ones."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        settings = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
            "output_padding": output_padding,
        }  # fmt: skip
        sizes = (in_channels, out_channels)
        shape = (in_channels, out_channels // max(1, groups))
        self._set_up(sizes, shape, settings, groups, bias, padding_mode, device, dtype)

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Any:
        """`input` of shape (N, in_channels, ...); `output_size` in the place of output_padding."""
        convolve = getattr(ag, f"conv_transpose{self.dims}d")
        more = self.output_padding if output_size is None else self._missing(input, output_size)
        settings = (self.stride, self.padding, more, self.groups, self.dilation)
        return convolve(input, self.weight, self.bias, *settings)

    def _missing(self, x: Any, output_size: Sequence[int]) -> tuple[int, ...]:
        """What is missing to a size; the op refuses what no padding can make up for."""
        wanted = tuple(output_size)[-self.dims :]
        least = [
            (size - 1) * step - 2 * pad + far * (kernel - 1) + 1
            for size, step, pad, far, kernel in zip(
                x.shape[-self.dims :], self.stride, self.padding, self.dilation, self.kernel_size,
                strict=True)
        ]  # fmt: skip
        return tuple(size - other for size, other in zip(wanted, least, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transposed convolution over (N, C, L); see ConvTranspose2d.

    >>> nn.ConvTranspose1d(8, 3, 4, stride=2, padding=1)(nc.rand(2, 8, 5)).shape
    (2, 3, 10)

    Its arguments are as of `ConvTranspose2d`.
    """

    dims = 1


class ConvTranspose2d(_ConvTranspose):
    """The transposed convolution over (N, C, H, W): what a Conv2d's input gets as its gradient.

    `weight` has shape (in_channels, out_channels / groups, *kernel_size). The result is
    `(size - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1` long in
    each dimension.

    >>> layer = nn.ConvTranspose2d(8, 3, 4, stride=2, padding=1)
    >>> layer(nc.Tensor.zeros((2, 8, 5, 7))).shape
    (2, 3, 10, 14)

    Args:
        output_padding: Positions that are added at the end of each dimension, fewer than the
            stride.
        others: As of Conv2d; `padding` is a number, `padding_mode` 'zeros'.

    Its arguments are as of `Conv2d`.
    """

    dims = 2


class ConvTranspose3d(_ConvTranspose):
    """The transposed convolution over (N, C, D, H, W); see ConvTranspose2d.

    >>> nn.ConvTranspose3d(4, 1, 2, stride=2)(nc.rand(2, 4, 3, 3, 3)).shape
    (2, 1, 6, 6, 6)

    Its arguments are as of `ConvTranspose2d`.
    """

    dims = 3
