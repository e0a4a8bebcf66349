"""Normalisation over the batch, with running statistics: BatchNorm1d, BatchNorm2d."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.norms import ones_and_zeros


class _BatchNorm(Module):
    """What both have in common; `dims` are the ranks of inputs that a layer takes."""

    dims: ClassVar[tuple[int, ...]]
    layout: ClassVar[str]
    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if num_features < 1:
            given = f"num_features={num_features}"
            raise AttributeValueError(message(type(self).__name__, given, "a positive number"))
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        self.weight, self.bias = ones_and_zeros(shape, affine, affine, dtype, device)
        if track_running_stats:
            self.register_buffer("running_mean", Tensor.zeros(shape, dtype, device))
            self.register_buffer("running_var", Tensor.ones(shape, dtype, device))
            self.register_buffer("num_batches_tracked", Tensor.zeros((), "int64", device))
        else:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.copy_(np.zeros(self.num_features))
            self.running_var.copy_(np.ones(self.num_features))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.copy_(np.array(0))

    def forward(self, x: Any) -> Any:
        """`x` to the same shape; raises ShapeError if it does not have the layer's form."""
        if x.ndim not in self.dims or x.shape[1] != self.num_features:
            given = f"x of shape {tuple(x.shape)}"
            expected = self.layout.format(self.num_features)
            raise ShapeError(message(type(self).__name__, given, expected))
        return ag.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self._count() if self.training else 0.0,
            self.eps,
        )

    def _count(self) -> float:
        """Count a batch; returns how much it moves the running statistics."""
        tracked = self.num_batches_tracked
        if tracked is not None:
            with ag.no_grad():
                tracked.copy_(ag.add(tracked, 1))
            if self.momentum is None:
                return 1.0 / int(tracked)
        return self.momentum or 0.0

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.weight is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Standardised per channel of (N, C) or (N, C, L) (Ioffe, Szegedy 2015, arXiv:1502.03167).

    Training uses the batch's statistics, with the biased variance, and moves the running
    ones: `running = (1 - momentum) * running + momentum * batch`, with the unbiased
    variance. `eval()` uses the running ones.

    Args:
        num_features: The number of channels.
        eps: Added to the variance.
        momentum: See above; None: the running statistics are plain means over all batches
            (which waits for the device in each step, to read how many there were).
        affine: Whether each channel has a weight and a bias.
        track_running_stats: False: the batch's statistics in `eval()` too, and no buffers.

    Buffers: `running_mean`, `running_var` of shape (num_features,), and
    `num_batches_tracked`, int64.
    """

    dims = (2, 3)
    layout = "(N, {0}) or (N, {0}, L)"


class BatchNorm2d(_BatchNorm):
    """Standardised per channel of (N, C, H, W); arguments and buffers as of BatchNorm1d."""

    dims = (4,)
    layout = "(N, {0}, H, W)"
