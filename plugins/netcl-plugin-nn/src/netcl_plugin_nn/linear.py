"""Linear and Bilinear, and the layers that compute nothing: Identity, Flatten and Unflatten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned


class Linear(Module):
    """`y = x @ weight.T + bias` for `x` of shape (..., in_features).

    `weight` has shape (out_features, in_features), `bias` (out_features,) or is None.
    Both start uniform in +-1/sqrt(in_features), as in PyTorch: `kaiming_uniform_` with
    a = sqrt(5) gives just that bound for the weight.

    >>> layer = nn.Linear(64, 10)
    >>> layer(nc.rand(32, 64)).shape
    (32, 10)
    >>> layer.weight.shape, layer.bias.shape
    ((10, 64), (10,))
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        if in_features < 1 or out_features < 1:
            given = f"({in_features}, {out_features})"
            raise AttributeValueError(message("Linear", given, "positive numbers of features"))
        self.in_features = in_features
        self.out_features = out_features
        self.weight = owned(Tensor.empty((out_features, in_features), dtype, device))
        self.bias = owned(Tensor.empty((out_features,), dtype, device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Any) -> Any:
        """`input` of shape (..., in_features) to (..., out_features)."""
        return ag.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Bilinear(Module):
    """`y_k = x1^T weight_k x2 + bias_k` for `x1` (..., in1_features) and `x2` (..., in2_features).

    `weight` has shape (out_features, in1_features, in2_features); it and the bias start uniform in
    +-1/sqrt(in1_features).

    >>> nn.Bilinear(3, 4, 5)(nc.rand(2, 3), nc.rand(2, 4)).shape
    (2, 5)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = "float32",
    ) -> None:
        sizes = (out_features, in1_features, in2_features)
        if min(sizes) < 1:
            raise AttributeValueError(
                message("Bilinear", f"{sizes}", "positive numbers of features")
            )
        self.in1_features, self.in2_features, self.out_features = *sizes[1:], out_features
        self.weight = owned(Tensor.empty(sizes, dtype, device))
        self.bias = owned(Tensor.empty((out_features,), dtype, device)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Any, input2: Any) -> Any:
        """Two tensors of equal leading sizes to (..., out_features)."""
        return ag.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}"
        return f"{sizes}, out_features={self.out_features}, bias={self.bias is not None}"


class Identity(Module):
    """Returns its input; takes any arguments, so that it can stand in for any layer.

    For inputs of any shape.

    >>> nn.Identity()(nc.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, input: Any) -> Any:
        """`input` itself."""
        return input


class Flatten(Module):
    """Merges the dimensions `start_dim` to `end_dim`; by default all but the batch.

    >>> nn.Flatten()(nc.rand(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, ...) to (N, rest)."""
        return ag.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several; one of them may be -1.

    >>> nn.Unflatten(1, (2, -1))(nc.zeros(3, 8)).shape
    (3, 2, 4)

    Args:
        unflattened_size: The sizes that the dimension is divided into.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """`input` with `unflattened_size` in the place of dimension `dim`."""
        shape = tuple(input.shape)
        if not -len(shape) <= self.dim < len(shape):
            given = f"dim={self.dim} of shape {shape}"
            raise AttributeValueError(message("Unflatten", given, "one of its dimensions"))
        place = self.dim % len(shape)
        return ag.reshape(input, (*shape[:place], *self.unflattened_size, *shape[place + 1 :]))

    def extra_repr(self) -> str:
        """The dimension and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
