"""Normalisation within a sample: LayerNorm, RMSNorm, GroupNorm, LocalResponseNorm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned


def ones_and_zeros(
    shape: tuple[int, ...], scale: bool, shift: bool, dtype: Any, device: Any
) -> tuple[Tensor | None, Tensor | None]:
    """The parameters of an affine map at its start: a weight and a bias, or None."""
    weight = owned(Tensor.ones(shape, dtype, device)) if scale else None
    bias = owned(Tensor.zeros(shape, dtype, device)) if shift else None
    return weight, bias


class LayerNorm(Module):
    """Standardised over the last dimensions (Ba et al. 2016, arXiv:1607.06450).

    For inputs of any shape that ends in `normalized_shape`; others raise ShapeError.

    `(x - mean) / sqrt(var + eps) * weight + bias`.

    >>> nn.LayerNorm(2)(nc.tensor([[1.0, 3.0]])).numpy().round(3)
    array([[-1.,  1.]], dtype=float32)

    Args:
        normalized_shape: The sizes of these dimensions, which weight and bias have too.
        eps: Added to the variance.
        elementwise_affine: Whether there is a weight.
        bias: Whether there is a bias as well.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.weight, self.bias = ones_and_zeros(
            self.normalized_shape, elementwise_affine, elementwise_affine and bias, dtype, device
        )

    def forward(self, input: Any) -> Any:
        """`input` of shape (..., *normalized_shape) to the same shape."""
        return ag.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        affine = f"elementwise_affine={self.weight is not None}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class RMSNorm(Module):
    """Divided by the root of the mean square (Zhang, Sennrich 2019, arXiv:1910.07467).

    `x / sqrt(mean(x^2) + eps) * weight` over the last dimensions.

    >>> nn.RMSNorm(2)(nc.tensor([[3.0, 4.0]])).numpy().round(3)
    array([[0.849, 1.131]], dtype=float32)

    Args:
        normalized_shape: The sizes of these dimensions, which the weight has too.
        eps: Added to the mean square; None: the machine epsilon of the input's dtype.
        elementwise_affine: Whether there is a weight.
    """

    weight: Tensor | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        self.normalized_shape = _sizes(normalized_shape)
        self.eps = eps
        self.weight, _ = ones_and_zeros(
            self.normalized_shape, elementwise_affine, False, dtype, device
        )

    def forward(self, x: Any) -> Any:
        """`x` of shape (..., *normalized_shape) to the same shape."""
        return ag.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        affine = f"elementwise_affine={self.weight is not None}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


class GroupNorm(Module):
    """Standardised within groups of channels (Wu, He 2018, arXiv:1803.08494).

    >>> nn.GroupNorm(2, 6)(nc.rand(4, 6, 5, 5)).shape
    (4, 6, 5, 5)

    Args:
        num_groups: The number of groups.
        num_channels: The number of channels, a multiple of it.
        eps: Added to the variance.
        affine: Whether each channel has a weight, and with `bias` a bias.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = "float32",
        *,
        bias: bool = True,
    ) -> None:
        if num_groups < 1 or num_channels < 1 or num_channels % num_groups:
            given = f"{num_channels} channels in {num_groups} groups"
            raise AttributeValueError(message("GroupNorm", given, "a multiple of the groups"))
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.weight, self.bias = ones_and_zeros(
            (num_channels,), affine, affine and bias, dtype, device
        )

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, num_channels, ...) to the same shape."""
        return ag.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        affine = f"affine={self.weight is not None}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, {affine}"


class LocalResponseNorm(Module):
    """Divided by a power of the mean square of neighbouring channels; `ag.local_response_norm`.

    For inputs (N, C, L, ...); others raise ShapeError.

    >>> nn.LocalResponseNorm(3)(nc.ones(1, 4, 2))[0, :, 0].numpy().round(4)
    array([1.    , 0.9999, 0.9999, 1.    ], dtype=float32)

    Args:
        alpha: The factor of the sum of squares.
        beta: The exponent.
        k: What is added to the sum.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, C, L, ...) to the same shape."""
        return ag.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm of (N, C, H, W) over (size - 1) // 2 channels on both sides.

    As in PyTorch the sum of squares is divided by `size`, also where that is even. PyTorch's own
    keeps channel 0 in the sums of later channels, and its gradient is of other windows; here both
    follow the definition.

    >>> nn.CrossMapLRN2d(3)(nc.ones(1, 4, 2, 2)).shape
    (1, 4, 2, 2)

    Args:
        alpha: The factor of the sum of squares.
        beta: The exponent.
        k: What is added to the sum.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, C, H, W) to the same shape."""
        x = ag.as_operand(input)
        if x.ndim != 4:
            raise ShapeError(message("CrossMapLRN2d", f"input of shape {x.shape}", "(N, C, H, W)"))
        taken = 2 * ((self.size + 1) // 2) - 1
        share = self.alpha * taken / self.size
        return ag.local_response_norm(x, taken, share, self.beta, self.k)


def _sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int):
        return (normalized_shape,)
    return tuple(int(size) for size in normalized_shape)
