"""`nn.functional`: the installed ops, and what PyTorch has there under a name of another op's.

`torch.nn.functional.unfold` is not `torch.Tensor.unfold`: here it is `ag.im2col`.
"""

from __future__ import annotations

from typing import Any

from netcl_core.arguments import lenient
from netcl_core.autograd import ops
from netcl_plugin_nn.heads import multi_head_attention_forward

__all__ = [
    "multi_head_attention_forward",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


@lenient
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The elements of each window of pictures as a column; arguments as of `ag.im2col`."""
    return ops.im2col(input, kernel_size, dilation, padding, stride)


@lenient
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """`ag.interpolate`, under the name that PyTorch had first."""
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


@lenient
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Each element repeated: `ag.interpolate` with mode 'nearest'."""
    return ops.interpolate(input, size, scale_factor, "nearest")


@lenient
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`ag.interpolate` of pictures with mode 'bilinear' and aligned corners."""
    return ops.interpolate(input, size, scale_factor, "bilinear", True)


def __getattr__(name: str) -> Any:
    return getattr(ops, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(ops)})
