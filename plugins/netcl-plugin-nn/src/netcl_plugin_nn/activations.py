"""Activations as modules: each calls the op of its name, with PyTorch's arguments and defaults.

With `inplace=True` the input is changed and returned.
"""

from __future__ import annotations

from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_plugin_nn import functional
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import owned


class _Activation(Module):
    """An op with attributes: `op` is its name, the instance's settings are its attributes."""

    op: ClassVar[str]

    def __init__(self, inplace: bool = False, **settings: Any) -> None:
        self.inplace = inplace
        self._settings = settings

    def forward(self, input: Any) -> Any:
        """The op on `input`; for most a tensor of the same shape."""
        return getattr(ag, self.op)(input, **self._settings, **self._target())

    def _target(self) -> dict[str, bool]:
        """Where the result goes."""
        return {"inplace": True} if self.inplace else {}

    def extra_repr(self) -> str:
        """The settings."""
        given = [f"{name}={value!r}" for name, value in self._settings.items()]
        return ", ".join([*given, *(["inplace=True"] if self.inplace else [])])


class ReLU(_Activation):
    """`max(x, 0)`."""

    op = "relu"


class ReLU6(_Activation):
    """`min(max(x, 0), 6)`."""

    op = "relu6"


class LeakyReLU(_Activation):
    """`x` where positive, else `negative_slope * x`."""

    op = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace, negative_slope=negative_slope)


class PReLU(Module):
    """A leaky ReLU whose slope is learned; `weight` has shape (num_parameters,).

    With several parameters they belong to the channels, dimension 1 of the input.
    """

    weight: Tensor

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        self.num_parameters, self.init = num_parameters, init
        self.weight = owned(Tensor.full((num_parameters,), float(init), dtype or "float32", device))

    def forward(self, input: Any) -> Any:
        """`input` of any shape (one parameter) or (N, num_parameters, ...)."""
        return ag.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.weight.size}"


class ELU(_Activation):
    """`x` where positive, else `alpha * (exp(x) - 1)`."""

    op = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, alpha=alpha)


class CELU(_Activation):
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)` (Barron 2017, arXiv:1704.07483)."""

    op = "celu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, alpha=alpha)


class SELU(_Activation):
    """A scaled ELU that keeps mean and variance (Klambauer et al. 2017, arXiv:1706.02515)."""

    op = "selu"


class GELU(_Activation):
    """`x * Phi(x)`, exactly ('none') or by PyTorch's tanh formula ('tanh')."""

    op = "gelu"

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class SiLU(_Activation):
    """`x * sigmoid(x)`, also called swish."""

    op = "silu"


class Mish(_Activation):
    """`x * tanh(softplus(x))`."""

    op = "mish"


class Sigmoid(_Activation):
    """`1 / (1 + exp(-x))`."""

    op = "sigmoid"


class LogSigmoid(_Activation):
    """The logarithm of the sigmoid."""

    op = "logsigmoid"


class Tanh(_Activation):
    """The hyperbolic tangent."""

    op = "tanh"


class Softsign(_Activation):
    """`x / (1 + |x|)`."""

    op = "softsign"


class Softplus(_Activation):
    """`log(1 + exp(beta * x)) / beta`, linear where `beta * x > threshold`."""

    op = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Hardsigmoid(_Activation):
    """`clamp(x / 6 + 1/2, 0, 1)`."""

    op = "hard_sigmoid"


class Hardswish(_Activation):
    """`x * hard_sigmoid(x)`."""

    op = "hard_swish"


class Hardtanh(_Activation):
    """`clamp(x, min_val, max_val)`."""

    op = "hard_tanh"

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, min_val=min_val, max_val=max_val)


class Threshold(_Activation):
    """`x` where it is above `threshold`, else `value`."""

    op = "threshold"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace, threshold=threshold, value=value)


class RReLU(_Activation):
    """`x` where positive, else `x` times a slope, drawn anew for each element in training.

    The slopes are uniform in `lower` to `upper`; in `eval()` the slope is the mean of the two.
    (Xu, Wang, Chen, Li 2015, arXiv:1505.00853)
    """

    op = "rrelu"

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace, lower=lower, upper=upper)

    def forward(self, input: Any) -> Any:
        """`input` of any shape to the same shape."""
        return ag.rrelu(input, **self._settings, training=self.training, **self._target())


class _Shrink(_Activation):
    """Small numbers become 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)

    def extra_repr(self) -> str:
        """The limit."""
        return f"{self._settings['lambd']}"


class Hardshrink(_Shrink):
    """`x` where its magnitude is above `lambd`, else 0."""

    op = "hardshrink"


class Softshrink(_Shrink):
    """`x` moved towards 0 by `lambd`, and 0 where it would pass it."""

    op = "softshrink"


class Tanhshrink(_Activation):
    """`x - tanh(x)`."""

    op = "tanhshrink"


class GLU(_Activation):
    """`a * sigmoid(b)` of the two halves of `x` along `dim` (Dauphin et al. 2016, 1612.08083)."""

    op = "glu"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Softmax(_Activation):
    """`exp(x) / sum(exp(x))` along `dim`.

    Without `dim` it is, as in PyTorch, 0 for tensors of one or three dimensions, else 1.
    """

    op = "softmax"

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Any) -> Any:
        """`input` of any shape to the same shape."""
        return getattr(functional, self.op)(input, self._settings["dim"])


class LogSoftmax(Softmax):
    """The logarithm of the softmax along `dim`."""

    op = "log_softmax"


class Softmin(Softmax):
    """The softmax of `-x` along `dim`."""

    op = "softmin"


class Softmax2d(Softmax):
    """The softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def __init__(self) -> None:
        super().__init__(-3)

    def extra_repr(self) -> str:
        """Nothing: there is one form of it."""
        return ""
