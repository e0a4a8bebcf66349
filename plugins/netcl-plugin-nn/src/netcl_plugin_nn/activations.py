"""Activations as modules: each calls the op of its name, with PyTorch's arguments and defaults."""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_plugin_nn.module import Module


class _Activation(Module):
    """An op with attributes: `op` is its name, the instance's settings are its attributes."""

    op: ClassVar[str]

    def __init__(self, **settings: Any) -> None:
        self._settings = settings

    def forward(self, x: Any) -> Any:
        """The op on `x`; for most a tensor of the same shape."""
        return getattr(ag, self.op)(x, **self._settings)

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={value!r}" for name, value in self._settings.items())


class ReLU(_Activation):
    """`max(x, 0)`."""

    op = "relu"

    def __init__(self) -> None:
        super().__init__()


class LeakyReLU(_Activation):
    """`x` where positive, else `negative_slope * x`."""

    op = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__(negative_slope=negative_slope)


class PReLU(Module):
    """A leaky ReLU whose slope is learned; `weight` has shape (num_parameters,).

    With several parameters they belong to the channels, dimension 1 of the input.
    """

    weight: Tensor

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.weight = Tensor.full((num_parameters,), float(init), requires_grad=True)

    def forward(self, x: Any) -> Any:
        """`x` of any shape (one parameter) or (N, num_parameters, ...)."""
        return ag.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.weight.size}"


class ELU(_Activation):
    """`x` where positive, else `alpha * (exp(x) - 1)`."""

    op = "elu"

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__(alpha=alpha)


class GELU(_Activation):
    """`x * Phi(x)`, exactly ('none') or by PyTorch's tanh formula ('tanh')."""

    op = "gelu"

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class SiLU(_Activation):
    """`x * sigmoid(x)`, also called swish."""

    op = "silu"

    def __init__(self) -> None:
        super().__init__()


class Mish(_Activation):
    """`x * tanh(softplus(x))`."""

    op = "mish"

    def __init__(self) -> None:
        super().__init__()


class Sigmoid(_Activation):
    """`1 / (1 + exp(-x))`."""

    op = "sigmoid"

    def __init__(self) -> None:
        super().__init__()


class Tanh(_Activation):
    """The hyperbolic tangent."""

    op = "tanh"

    def __init__(self) -> None:
        super().__init__()


class Softplus(_Activation):
    """`log(1 + exp(beta * x)) / beta`, linear where `beta * x > threshold`."""

    op = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Hardsigmoid(_Activation):
    """`clamp(x / 6 + 1/2, 0, 1)`."""

    op = "hard_sigmoid"

    def __init__(self) -> None:
        super().__init__()


class Hardswish(_Activation):
    """`x * hard_sigmoid(x)`."""

    op = "hard_swish"

    def __init__(self) -> None:
        super().__init__()


class Hardtanh(_Activation):
    """`clamp(x, min_val, max_val)`."""

    op = "hard_tanh"

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__(min_val=min_val, max_val=max_val)


class Softmax(_Activation):
    """`exp(x) / sum(exp(x))` along `dim`; needs netcl-plugin-tensor."""

    op = "softmax"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class LogSoftmax(_Activation):
    """The logarithm of the softmax along `dim`; needs netcl-plugin-tensor."""

    op = "log_softmax"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)
