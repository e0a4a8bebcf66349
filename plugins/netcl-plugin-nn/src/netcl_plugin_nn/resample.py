"""Layers that resample pictures or move their channels: Upsample, PixelShuffle, ChannelShuffle."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn.module import Module


class Upsample(Module):
    """`ag.interpolate` with these settings.

    >>> nn.Upsample(scale_factor=2, mode="bilinear")(np.ones((1, 2, 3, 4), np.float32)).shape
    (1, 2, 6, 8)

    Args:
        size, scale_factor: The new sizes, or how many times as large; one of the two.
        mode, align_corners, recompute_scale_factor: As of `ag.interpolate`.
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, C, ...) to another size of its last axes."""
        settings = (self.mode, self.align_corners, self.recompute_scale_factor)
        return ag.interpolate(input, self.size, self.scale_factor, *settings)

    def extra_repr(self) -> str:
        """The settings."""
        given = f"scale_factor={self.scale_factor}"
        return f"{given if self.size is None else f'size={self.size}'}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Each element of (N, C, H, W) repeated.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(nc.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear between the elements of (N, C, H, W), with `align_corners`.

    >>> nn.UpsamplingBilinear2d(scale_factor=2)(nc.rand(1, 3, 4, 4)).shape
    (1, 3, 8, 8)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Module):
    """(..., C * r^2, H, W) to (..., C, H * r, W * r) (Shi et al. 2016, arXiv:1609.05158).

    >>> nn.PixelShuffle(2)(np.ones((1, 8, 3, 4), np.float32)).shape
    (1, 2, 6, 8)

    Args:
        upscale_factor: How many times larger height and width become.
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = _checked_factor("PixelShuffle", upscale_factor)

    def forward(self, input: Any) -> Any:
        """Each r^2 channels as blocks of r x r pixels."""
        return ag.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(..., C, H * r, W * r) to (..., C * r^2, H, W): what PixelShuffle does, undone.

    >>> nn.PixelUnshuffle(2)(nc.rand(1, 3, 8, 8)).shape
    (1, 12, 4, 4)

    Args:
        downscale_factor: How many times smaller height and width become.
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = _checked_factor("PixelUnshuffle", downscale_factor)

    def forward(self, input: Any) -> Any:
        """Blocks of r x r pixels as channels."""
        return ag.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """The channels of (N, C, ...) in another order: one of each group in turn.

    >>> nn.ChannelShuffle(2)(nc.tensor([[[1], [2], [3], [4]]])).tolist()
    [[[1], [3], [2], [4]]]

    (Zhang, Zhou, Lin, Sun 2018, arXiv:1707.01083)

    Args:
        groups: Into how many groups the channels are divided.
    """

    def __init__(self, groups: int) -> None:
        self.groups = _checked_factor("ChannelShuffle", groups)

    def forward(self, input: Any) -> Any:
        """The channels of each group, which stand together, apart."""
        return ag.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


def _checked_factor(who: str, factor: int) -> int:
    if factor < 1:
        raise AttributeValueError(message(who, f"{factor}", "a positive factor"))
    return factor
