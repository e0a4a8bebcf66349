"""Linear layers, and the layers that compute nothing: Identity and Flatten."""

from __future__ import annotations

import math
from typing import Any

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_nn import init
from netcl_plugin_nn.module import Module


class Linear(Module):
    """`y = x @ weight.T + bias` for `x` of shape (..., in_features).

    `weight` has shape (out_features, in_features), `bias` (out_features,) or is None.
    Both start uniform in +-1/sqrt(in_features), as in PyTorch: `kaiming_uniform_` with
    a = sqrt(5) gives just that bound for the weight.
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
        self.weight = Tensor.empty((out_features, in_features), dtype, device).requires_grad_()
        self.bias = Tensor.empty((out_features,), dtype, device).requires_grad_() if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Any) -> Any:
        """`x` of shape (..., in_features) to (..., out_features)."""
        return ag.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Identity(Module):
    """Returns its input; takes any arguments, so that it can stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        """`x` itself."""
        return x


class Flatten(Module):
    """Merges the dimensions `start_dim` to `end_dim`; by default all but the batch."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, x: Any) -> Any:
        """`x` of shape (N, ...) to (N, rest)."""
        return ag.flatten(x, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
