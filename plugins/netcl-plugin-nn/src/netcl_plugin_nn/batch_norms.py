"""Normalisation with running statistics: BatchNorm1d to 3d and InstanceNorm1d to 3d."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import netcl_core
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.norms import ones_and_zeros


class _RunningNorm(Module):
    """What all have in common; `dims` are the ranks of inputs that a layer of `op` takes."""

    op: ClassVar[str]
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
        *,
        bias: bool = True,
    ) -> None:
        if num_features < 1:
            given = f"num_features={num_features}"
            raise AttributeValueError(message(type(self).__name__, given, "a positive number"))
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        self.weight, self.bias = ones_and_zeros(shape, affine, affine and bias, dtype, device)
        if track_running_stats:
            self.register_buffer("running_mean", Tensor.zeros(shape, dtype, device))
            self.register_buffer("running_var", Tensor.ones(shape, dtype, device))
            self.register_buffer("num_batches_tracked", Tensor.zeros((), "int64", device))
        else:
            self.running_mean = self.running_var = self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        """Forget the batches seen."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.overwrite(np.zeros(self.num_features))
            self.running_var.overwrite(np.ones(self.num_features))
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.overwrite(np.array(0))

    def forward(self, input: Any) -> Any:
        """`input` to the same shape; raises ShapeError if it does not have the layer's form."""
        self._check(input)
        return getattr(ag, self.op)(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            **self._moving(),
            eps=self.eps,
        )

    def _moving(self) -> dict[str, Any]:
        """How a batch moves the running statistics."""
        return {"momentum": self.momentum or 0.0}

    def _check(self, x: Any) -> None:
        """Raise ShapeError unless x has the layer's form."""
        if x.ndim not in self.dims or x.shape[1] != self.num_features:
            given = f"x of shape {tuple(x.shape)}"
            expected = self.layout.format(self.num_features)
            raise ShapeError(message(type(self).__name__, given, expected))

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.weight is not None}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    """Over the batch."""

    op = "batch_norm"

    def _moving(self) -> dict[str, Any]:
        """A batch is counted, in training, by the op; or here, where the rate depends on the count.

        Then it is a tensor, so that nothing is read and a replay counts, too.
        """
        tracked = self.num_batches_tracked
        if tracked is None or not self.training:
            return super()._moving()
        if self.momentum is not None:
            return {"momentum": self.momentum, "batches": tracked}
        with ag.no_grad():
            tracked.copy_(ag.add(tracked, 1))
            return {"momentum": ag.reciprocal(tracked.astype("float32"))}


class BatchNorm1d(_BatchNorm):
    """Standardised per channel of (N, C) or (N, C, L) (Ioffe, Szegedy 2015, arXiv:1502.03167).

    Training uses the batch's statistics, with the biased variance, and moves the running
    ones: `running = (1 - momentum) * running + momentum * batch`, with the unbiased
    variance. `eval()` uses the running ones.

    >>> layer = nn.BatchNorm1d(3)
    >>> layer(nc.rand(32, 3)).mean(0).numpy().round(4) + 0.0
    array([0., 0., 0.], dtype=float32)
    >>> layer.num_batches_tracked.item(), layer.running_mean.shape
    (1, (3,))

    Args:
        num_features: The number of channels.
        eps: Added to the variance.
        momentum: See above; None: the running statistics are plain means over all batches.
        affine: Whether each channel has a weight and a bias.
        bias: False: no bias, also where there is a weight.
        track_running_stats: False: the batch's statistics in `eval()` too, and no buffers.

    Buffers: `running_mean`, `running_var` of shape (num_features,), and
    `num_batches_tracked`, int64.
    """

    dims = (2, 3)
    layout = "(N, {0}) or (N, {0}, L)"


class BatchNorm2d(_BatchNorm):
    """Standardised per channel of (N, C, H, W); arguments and buffers as of BatchNorm1d.

    >>> nn.BatchNorm2d(3)(nc.rand(8, 3, 5, 5)).shape
    (8, 3, 5, 5)

    Its arguments are as of `BatchNorm1d`.
    """

    dims = (4,)
    layout = "(N, {0}, H, W)"


class BatchNorm3d(_BatchNorm):
    """Standardised per channel of (N, C, D, H, W); arguments and buffers as of BatchNorm1d.

    >>> nn.BatchNorm3d(3)(nc.rand(4, 3, 2, 5, 5)).shape
    (4, 3, 2, 5, 5)

    Its arguments are as of `BatchNorm1d`.
    """

    dims = (5,)
    layout = "(N, {0}, D, H, W)"


class SyncBatchNorm(_BatchNorm):
    """Standardised per channel of (N, C, ...) over the batches of all processes.

    >>> net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    >>> nn.SyncBatchNorm.convert_sync_batchnorm(net)[1]
    SyncBatchNorm(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)

    Arguments and buffers as of BatchNorm1d. In one process it is that. Among several it raises
    NotImplementedError in training: each process would see its own batch.

    Args:
        num_features: How many channels there are.
        process_group: Has no effect.
    """

    dims = (2, 3, 4, 5)
    layout = "(N, {0}, ...)"

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = "float32",
        bias: bool = True,
    ) -> None:
        settings = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(num_features, *settings, bias=bias)

    def forward(self, input: Any) -> Any:
        if self.training and _processes() > 1:
            given = f"training among {_processes()} processes"
            remedy = "Use BatchNorm, whose statistics are each process's, or GroupNorm"
            raise NotImplementedError(message("SyncBatchNorm", given, "one process", remedy))
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """A module with each BatchNorm in it as a SyncBatchNorm with the same parameters."""
        converted = module
        if isinstance(module, _BatchNorm):
            settings = (module.num_features, module.eps, module.momentum)
            converted = cls(*settings, module.weight is not None, module.track_running_stats)
            converted.training = module.training
            for table in ("_parameters", "_buffers"):
                getattr(converted, table).update(getattr(module, table))
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


def _processes() -> int:
    """How many processes train together, as far as a plugin for that says."""
    try:
        group: Any = netcl_core.distributed
    except (AttributeError, ImportError):
        return 1
    return int(group.size()) if group.is_initialized() else 1


class _InstanceNorm(_RunningNorm):
    """Over each sample."""

    op = "instance_norm"

    def forward(self, input: Any) -> Any:
        """`input`, with a batch or a single sample, to the same shape; raises ShapeError."""
        if input.ndim != self.dims[0] - 1:
            return super().forward(input)
        return ag.squeeze(super().forward(ag.unsqueeze(input, 0)), 0)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = "float32",
        *,
        bias: bool = True,
    ) -> None:
        settings = (eps, momentum, affine, track_running_stats, device, dtype)
        super().__init__(num_features, *settings, bias=bias)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample of (N, C, L) or (C, L) standardised (Ulyanov et al. 2016).

    Arguments and buffers as of BatchNorm1d, but without weight, bias and running statistics
    unless `affine` and `track_running_stats` ask for them; `num_batches_tracked` stays 0, as
    PyTorch's does.

    >>> nn.InstanceNorm1d(3)(nc.rand(8, 3, 9)).shape
    (8, 3, 9)

    Its arguments are as of `BatchNorm1d`.
    """

    dims = (3,)
    layout = "(N, {0}, L) or ({0}, L)"


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample of (N, C, H, W) standardised; as InstanceNorm1d.

    >>> nn.InstanceNorm2d(3, affine=True)(nc.rand(8, 3, 5, 5)).shape
    (8, 3, 5, 5)

    Its arguments are as of `BatchNorm1d`.
    """

    dims = (4,)
    layout = "(N, {0}, H, W) or ({0}, H, W)"


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample of (N, C, D, H, W) standardised; as InstanceNorm1d.

    >>> nn.InstanceNorm3d(3)(nc.rand(4, 3, 2, 5, 5)).shape
    (4, 3, 2, 5, 5)

    Its arguments are as of `BatchNorm1d`.
    """

    dims = (5,)
    layout = "(N, {0}, D, H, W) or ({0}, D, H, W)"
