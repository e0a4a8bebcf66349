"""Layers that put elements back or take them at drawn places: unpooling, fractional pooling, folds.

Arguments are PyTorch's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.module import Module


def _several(given: Any, count: int) -> tuple[Any, ...]:
    """One value per axis."""
    return tuple(given) if isinstance(given, (tuple, list)) else (given,) * count


class _MaxUnpool(Module):
    """The elements of max pooling where they were, zeros elsewhere."""

    count: ClassVar[int]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        self.kernel_size = _several(kernel_size, self.count)
        self.stride = self.kernel_size if stride is None else _several(stride, self.count)
        self.padding = _several(padding, self.count)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """What a MaxPool layer with `return_indices` gave, to its smallest or a given size."""
        op = getattr(ag, f"max_unpool{self.count}d")
        return op(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """What MaxPool1d took from (N, C, L), put back; arguments as of `ag.max_unpool2d`.

    >>> values, places = nn.MaxPool1d(2, return_indices=True)(nc.tensor([[[1.0, 5.0, 2.0, 3.0]]]))
    >>> nn.MaxUnpool1d(2)(values, places).tolist()
    [[[0.0, 5.0, 0.0, 3.0]]]
    """

    count = 1


class MaxUnpool2d(_MaxUnpool):
    """What MaxPool2d took from (N, C, H, W), put back; arguments as of `ag.max_unpool2d`.

    >>> found = nn.MaxPool2d(2, return_indices=True)(nc.tensor([[[1.0, 5.0], [2.0, 3.0]]]))
    >>> nn.MaxUnpool2d(2)(*found).tolist()
    [[[0.0, 5.0], [0.0, 0.0]]]
    """

    count = 2


class MaxUnpool3d(_MaxUnpool):
    """What MaxPool3d took from (N, C, D, H, W), put back; arguments as of `ag.max_unpool2d`.

    >>> values, places = nn.MaxPool3d(2, return_indices=True)(nc.rand(1, 1, 4, 4, 4))
    >>> nn.MaxUnpool3d(2)(values, places).shape
    (1, 1, 4, 4, 4)
    """

    count = 3


class _FractionalMaxPool(Module):
    """The largest elements of windows at drawn distances."""

    count: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        if (output_size is None) == (output_ratio is None):
            given = f"output_size={output_size!r} and output_ratio={output_ratio!r}"
            raise ArgumentError(message(type(self).__name__, given, "exactly one of the two"))
        self.kernel_size = _several(kernel_size, self.count)
        self.return_indices = return_indices
        self.output_size = None if output_size is None else _several(output_size, self.count)
        self.output_ratio = None if output_ratio is None else _several(output_ratio, self.count)
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Any) -> Any:
        """`input` with fewer elements along its last axes; with `return_indices` a pair."""
        op = getattr(ag, f"fractional_max_pool{self.count}d")
        sizes = (self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return op(input, self.kernel_size, *sizes)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest elements of (N, C, H, W) in drawn windows; as `ag.fractional_max_pool2d`.

    >>> nn.FractionalMaxPool2d(2, output_size=5)(nc.rand(1, 3, 8, 8)).shape
    (1, 3, 5, 5)

    Args:
        kernel_size: The size of a window: a number, or one for each dimension.
        output_ratio: The size of the output in proportion to the input, below 1.
        return_indices: Whether the places of the maxima are a second result.
    """

    count = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest elements of (N, C, D, H, W) in drawn windows; as `ag.fractional_max_pool2d`.

    >>> nn.FractionalMaxPool3d(2, output_size=3)(nc.rand(1, 3, 6, 6, 6)).shape
    (1, 3, 3, 3, 3)

    Args:
        kernel_size: The size of a window: a number, or one for each dimension.
        output_ratio: The size of the output in proportion to the input, below 1.
        return_indices: Whether the places of the maxima are a second result.
    """

    count = 3


class Unfold(Module):
    """The elements of each window of (N, C, H, W) as a column; arguments as of `ag.im2col`.

    >>> nn.Unfold(2)(nc.ones(1, 3, 4, 5)).shape
    (1, 12, 12)
    """

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Any) -> Any:
        """(N, C, H, W) to (N, C * elements of a window, windows)."""
        return ag.im2col(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The settings."""
        sizes = f"kernel_size={self.kernel_size}, dilation={self.dilation}"
        return f"{sizes}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """Columns added up where Unfold took them from a plane of `output_size`; as `ag.fold`.

    >>> nn.Fold((4, 5), 2)(nc.ones(1, 12, 12)).shape
    (1, 3, 4, 5)

    Args:
        kernel_size: The size of a window: a number, or one for each dimension.
        dilation: How far apart the elements of a window are.
        padding: How many zeros are at the borders.
        stride: How far apart the windows are, 1 by default.
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0,
        stride: Any = 1,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """(N, C * elements of a window, windows) to (N, C, H, W)."""
        settings = (self.kernel_size, self.dilation, self.padding, self.stride)
        return ag.fold(input, self.output_size, *settings)

    def extra_repr(self) -> str:
        """The settings."""
        return f"output_size={self.output_size}, {super().extra_repr()}"
