"""Pooling layers: MaxPool, AvgPool, LPPool, and the adaptive ones; arguments are PyTorch's."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_plugin_nn.module import Module


class _MaxPool(Module):
    """The largest element of each window."""

    op: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """`input` with fewer elements along its last axes; with `return_indices` a pair."""
        windows = (self.kernel_size, self.stride, self.padding, self.dilation)
        return getattr(ag, self.op)(input, *windows, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of (N, C, L); arguments as of `ag.max_pool2d`.

    >>> nn.MaxPool1d(2)(nc.tensor([[1.0, 5.0, 2.0, 3.0]])).tolist()
    [[5.0, 3.0]]
    """

    op = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest element of each window of (N, C, H, W); arguments as of `ag.max_pool2d`.

    >>> nn.MaxPool2d(3, stride=2, padding=1)(np.ones((1, 2, 8, 8), np.float32)).shape
    (1, 2, 4, 4)
    """

    op = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest element of each window of (N, C, D, H, W); arguments as of `ag.max_pool2d`.

    >>> nn.MaxPool3d(2)(nc.rand(1, 3, 4, 8, 8)).shape
    (1, 3, 2, 4, 4)
    """

    op = "max_pool3d"


class _AvgPool(Module):
    """The average of each window."""

    op: ClassVar[str]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        """`input` with fewer elements along its last axes."""
        windows = (self.kernel_size, self.stride, self.padding, self.ceil_mode)
        divisor = () if self.divisor_override is None else (self.divisor_override,)
        return getattr(ag, self.op)(input, *windows, self.count_include_pad, *divisor)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The average of each window of (N, C, L); arguments as of `ag.avg_pool1d`.

    >>> nn.AvgPool1d(2)(nc.tensor([[1.0, 5.0, 2.0, 4.0]])).tolist()
    [[3.0, 3.0]]
    """

    op = "avg_pool1d"

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    """The average of each window of (N, C, H, W); arguments as of `ag.avg_pool2d`.

    >>> nn.AvgPool2d(3, stride=2, padding=1)(nc.rand(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """

    op = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The average of each window of (N, C, D, H, W); arguments as of `ag.avg_pool2d`.

    >>> nn.AvgPool3d(2)(nc.rand(1, 3, 4, 8, 8)).shape
    (1, 3, 2, 4, 4)
    """

    op = "avg_pool3d"


class _LPPool(Module):
    """The root of the sum of powers of each window."""

    op: ClassVar[str]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """`input` with fewer elements along its last axes."""
        windows = (self.kernel_size, self.stride, self.ceil_mode)
        return getattr(ag, self.op)(input, self.norm_type, *windows)

    def extra_repr(self) -> str:
        """The settings."""
        sizes = f"kernel_size={self.kernel_size}, stride={self.stride}"
        return f"norm_type={self.norm_type}, {sizes}, ceil_mode={self.ceil_mode}"


class LPPool1d(_LPPool):
    """`sum(x^p)^(1/p)` of each window of (N, C, L); arguments as of `ag.lp_pool2d`.

    >>> nn.LPPool1d(2, 2)(nc.tensor([[[3.0, 4.0, 0.0, 1.0]]])).tolist()
    [[[5.0, 1.0]]]

    Its arguments are as of `lp_pool2d`.
    """

    op = "lp_pool1d"


class LPPool2d(_LPPool):
    """`sum(x^p)^(1/p)` of each window of (N, C, H, W); arguments as of `ag.lp_pool2d`.

    >>> nn.LPPool2d(2, 2)(nc.rand(1, 3, 8, 8)).shape
    (1, 3, 4, 4)

    Its arguments are as of `lp_pool2d`.
    """

    op = "lp_pool2d"


class LPPool3d(_LPPool):
    """`sum(x^p)^(1/p)` of each window of (N, C, D, H, W); arguments as of `ag.lp_pool2d`.

    >>> nn.LPPool3d(2, 2)(nc.rand(1, 3, 4, 8, 8)).shape
    (1, 3, 2, 4, 4)

    Its arguments are as of `lp_pool2d`.
    """

    op = "lp_pool3d"


class _Adaptive(Module):
    """As many windows as `output_size` says."""

    op: ClassVar[str]

    def __init__(self, output_size: Any) -> None:
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """`input` with `output_size` elements along its last axes."""
        return getattr(ag, self.op)(input, self.output_size)

    def extra_repr(self) -> str:
        """The setting."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """The averages of (N, C, L) in `output_size` windows.

    >>> nn.AdaptiveAvgPool1d(2)(nc.rand(1, 3, 8)).shape
    (1, 3, 2)
    """

    op = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """The averages of (N, C, H, W) in `output_size` windows, an int or one per axis.

    >>> nn.AdaptiveAvgPool2d(1)(np.ones((1, 2, 7, 7), np.float32)).shape
    (1, 2, 1, 1)
    """

    op = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """The averages of (N, C, D, H, W) in `output_size` windows, an int or one per axis.

    >>> nn.AdaptiveAvgPool3d((1, 2, 2))(nc.rand(1, 3, 4, 8, 8)).shape
    (1, 3, 1, 2, 2)
    """

    op = "adaptive_avg_pool3d"


class _AdaptiveMax(_Adaptive):
    """The same of the largest elements, with their indices if need be."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        """`input` with `output_size` elements along its last axes; with `return_indices` a pair."""
        return getattr(ag, self.op)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """The largest elements of (N, C, L) in `output_size` windows.

    >>> nn.AdaptiveMaxPool1d(2)(nc.tensor([[1.0, 5.0, 2.0, 3.0]])).tolist()
    [[5.0, 3.0]]

    Args:
        return_indices: Whether the places of the maxima are a second result.
    """

    op = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """The largest elements of (N, C, H, W) in `output_size` windows, an int or one per axis.

    >>> nn.AdaptiveMaxPool2d(2)(nc.rand(1, 3, 8, 6)).shape
    (1, 3, 2, 2)

    Args:
        return_indices: Whether the places of the maxima are a second result.
    """

    op = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """The largest elements of (N, C, D, H, W) in `output_size` windows.

    >>> nn.AdaptiveMaxPool3d(2)(nc.rand(1, 3, 4, 8, 6)).shape
    (1, 3, 2, 2, 2)

    Args:
        return_indices: Whether the places of the maxima are a second result.
    """

    op = "adaptive_max_pool3d"
