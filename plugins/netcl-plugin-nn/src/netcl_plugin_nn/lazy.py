"""Lazy layers: the size of the input is that of the first call, which makes the parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, ClassVar

from netcl_core import Tensor
from netcl_core.errors import ShapeError, message
from netcl_plugin_nn.batch_norms import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from netcl_plugin_nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from netcl_plugin_nn.linear import Linear
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter
from netcl_plugin_nn.uninitialized import (
    Uninitialized,
    UninitializedBuffer,
    UninitializedParameter,
)


class _Lazy(Module):
    """A layer that becomes one of `plain` at its first call; its arguments are that one's but the
    first, which is the number of the input's features."""

    plain: ClassVar[type[Module]]
    #: The attribute with the number of features.
    count: ClassVar[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(self.plain).bind(None, *args, **kwargs)
        first = next(iter(bound.arguments))
        # A number that every number of groups fits, until the true one is known.
        bound.arguments[first] = bound.arguments.get("groups", 1)
        self._given = bound
        self.plain.__init__(self, *bound.args, **bound.kwargs)
        setattr(self, self.count, 0)
        for name, tensor in {**dict(self.named_parameters()), **dict(self.named_buffers())}.items():
            if tensor.shape:
                trained = isinstance(tensor, Parameter)
                kind = UninitializedParameter if trained else UninitializedBuffer
                setattr(self, name, kind(tensor.requires_grad, tensor.device, tensor.dtype))

    def reset_parameters(self) -> None:
        """Nothing: there is nothing to draw yet."""

    def has_uninitialized_params(self) -> bool:
        """Whether the parameters are still to be made."""
        return any(True for _ in self._to_come())

    def _to_come(self) -> Iterator[tuple[str, Uninitialized]]:
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            if isinstance(tensor, Uninitialized):
                yield name, tensor

    def initialize_parameters(self, input: Any) -> None:
        """Make the parameters for an input's features, and become the plain layer."""
        features, given, count = self._features(input), self._given, self.count
        to_come = list(self._to_come())
        object.__setattr__(self, "__class__", self.plain)
        del self._given
        setattr(self, count, features)
        if to_come:
            place, dtype = to_come[0][1].device, to_come[0][1].dtype
            sizes = {next(iter(given.arguments)): features, "device": place, "dtype": dtype}
            given.arguments.update(sizes)
            fresh = type(self)(*given.args, **given.kwargs)
            tensors = {**dict(fresh.named_parameters()), **dict(fresh.named_buffers())}
            for name, tensor in to_come:
                tensor.take(tensors[name])

    def _features(self, x: Tensor) -> int:
        """The number of the input's features; raises ShapeError for what has none."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As of the plain layer, which this one is from now on."""
        self.initialize_parameters(args[0])
        return self.forward(*args, **kwargs)


class LazyLinear(_Lazy, Linear):
    """A Linear whose `in_features` is the last size of its first input.

    >>> layer = nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> layer(nc.zeros(2, 5)).shape, layer
    ((2, 3), Linear(in_features=5, out_features=3, bias=True))

    The arguments are Linear's without the first. Until the first call the parameters are
    UninitializedParameter; `load_state_dict` makes them, too.
    """

    plain = Linear
    count = "in_features"

    def _features(self, x: Tensor) -> int:
        if not x.shape:
            given = "x without dimensions"
            raise ShapeError(message(type(self).__name__, given, "(..., in_features)"))
        return x.shape[-1]


class _LazyConvolution(_Lazy):
    """A convolution whose `in_channels` is read from its first input."""

    dims: ClassVar[int]
    count = "in_channels"

    def _features(self, x: Tensor) -> int:
        if x.ndim not in (self.dims + 1, self.dims + 2):
            expected = f"{self.dims + 1} dimensions, or {self.dims + 2} with a batch"
            raise ShapeError(message(type(self).__name__, f"x of shape {x.shape}", expected))
        return x.shape[-self.dims - 1]


class LazyConv1d(_LazyConvolution, Conv1d):
    """A Conv1d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConv1d(8, 3)
    >>> layer(nc.rand(2, 3, 9)).shape, layer.weight.shape
    ((2, 8, 7), (8, 3, 3))
    """

    plain = Conv1d


class LazyConv2d(_LazyConvolution, Conv2d):
    """A Conv2d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConv2d(8, 3)
    >>> layer(nc.rand(2, 3, 9, 9)).shape, layer.weight.shape
    ((2, 8, 7, 7), (8, 3, 3, 3))
    """

    plain = Conv2d


class LazyConv3d(_LazyConvolution, Conv3d):
    """A Conv3d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConv3d(8, 3)
    >>> layer(nc.rand(2, 3, 5, 5, 5)).shape, layer.weight.shape
    ((2, 8, 3, 3, 3), (8, 3, 3, 3, 3))
    """

    plain = Conv3d


class LazyConvTranspose1d(_LazyConvolution, ConvTranspose1d):
    """A ConvTranspose1d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConvTranspose1d(8, 2, stride=2)
    >>> layer(nc.rand(2, 3, 9)).shape, layer.weight.shape
    ((2, 8, 18), (3, 8, 2))
    """

    plain = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvolution, ConvTranspose2d):
    """A ConvTranspose2d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConvTranspose2d(8, 2, stride=2)
    >>> layer(nc.rand(2, 3, 4, 4)).shape, layer.weight.shape
    ((2, 8, 8, 8), (3, 8, 2, 2))
    """

    plain = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvolution, ConvTranspose3d):
    """A ConvTranspose3d whose `in_channels` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyConvTranspose3d(8, 2, stride=2)
    >>> layer(nc.rand(2, 3, 2, 2, 2)).shape, layer.weight.shape
    ((2, 8, 4, 4, 4), (3, 8, 2, 2, 2))
    """

    plain = ConvTranspose3d


class _LazyNorm(_Lazy):
    """A normalisation whose `num_features` is the number of its first input's channels."""

    count = "num_features"

    def _features(self: Any, x: Tensor) -> int:
        if x.ndim not in self.dims:
            given, expected = f"x of shape {x.shape}", self.layout.format("num_features")
            raise ShapeError(message(type(self).__name__, given, expected))
        return x.shape[1]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A BatchNorm1d whose `num_features` is read from its first input; see LazyLinear.

    For inputs (N, C) or (N, C, L).

    >>> layer = nn.LazyBatchNorm1d()
    >>> _ = layer(nc.rand(8, 3))
    >>> layer.num_features
    3
    """

    plain = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A BatchNorm2d whose `num_features` is read from its first input; see LazyLinear.

    For inputs (N, C, H, W).

    >>> layer = nn.LazyBatchNorm2d()
    >>> _ = layer(nc.rand(8, 3, 4, 4))
    >>> layer.num_features
    3
    """

    plain = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A BatchNorm3d whose `num_features` is read from its first input; see LazyLinear.

    For inputs (N, C, D, H, W).

    >>> layer = nn.LazyBatchNorm3d()
    >>> _ = layer(nc.rand(8, 3, 2, 4, 4))
    >>> layer.num_features
    3
    """

    plain = BatchNorm3d


class _LazyInstanceNorm(_LazyNorm):
    """With PyTorch's defaults, which are not those of the plain layers."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = "float32",
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device, dtype, bias=bias)


class LazyInstanceNorm1d(_LazyInstanceNorm, InstanceNorm1d):
    """An InstanceNorm1d whose `num_features` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyInstanceNorm1d()
    >>> _ = layer(nc.rand(8, 3, 4))
    >>> layer.num_features
    3

    Its arguments are as of `BatchNorm1d`.
    """

    plain = InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, InstanceNorm2d):
    """An InstanceNorm2d whose `num_features` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyInstanceNorm2d()
    >>> _ = layer(nc.rand(8, 3, 4, 4))
    >>> layer.num_features
    3

    Its arguments are as of `BatchNorm1d`.
    """

    plain = InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, InstanceNorm3d):
    """An InstanceNorm3d whose `num_features` is read from its first input; see LazyLinear.

    >>> layer = nn.LazyInstanceNorm3d()
    >>> _ = layer(nc.rand(8, 3, 2, 4, 4))
    >>> layer.num_features
    3

    Its arguments are as of `BatchNorm1d`.
    """

    plain = InstanceNorm3d
