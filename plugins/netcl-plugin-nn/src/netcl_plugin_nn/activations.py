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


class _PlainActivation(_Activation):
    """One without settings, which PyTorch does not offer in place."""

    def __init__(self) -> None:
        super().__init__()


class ReLU(_Activation):
    """`max(x, 0)`.

    For inputs of any shape.

    >>> nn.ReLU()(nc.tensor([-2.0, 0.0, 1.0])).tolist()
    [0.0, 0.0, 1.0]
    """

    op = "relu"


class ReLU6(_Activation):
    """`min(max(x, 0), 6)`.

    For inputs of any shape.

    >>> nn.ReLU6()(nc.tensor([-2.0, 4.0, 9.0])).tolist()
    [0.0, 4.0, 6.0]
    """

    op = "relu6"


class LeakyReLU(_Activation):
    """`x` where positive, else `negative_slope * x`.

    For inputs of any shape.

    >>> nn.LeakyReLU(0.5)(nc.tensor([-2.0, 1.0])).tolist()
    [-1.0, 1.0]
    """

    op = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace, negative_slope=negative_slope)


class PReLU(Module):
    """A leaky ReLU whose slope is learned; `weight` has shape (num_parameters,).

    With several parameters they belong to the channels, dimension 1 of the input.

    >>> layer = nn.PReLU()
    >>> layer(nc.tensor([-2.0, 1.0])).tolist(), layer.weight.shape
    ([-0.5, 1.0], (1,))

    Args:
        init: The first value of the slopes.
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
    """`x` where positive, else `alpha * (exp(x) - 1)`.

    For inputs of any shape.

    >>> nn.ELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-0.865, -0.393,  0.   ,  1.   ], dtype=float32)
    """

    op = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, alpha=alpha)


class CELU(_Activation):
    """`x` where positive, else `alpha * (exp(x / alpha) - 1)` (Barron 2017, arXiv:1704.07483).

    For inputs of any shape.

    >>> nn.CELU(2.0)(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-1.264, -0.442,  0.   ,  1.   ], dtype=float32)
    """

    op = "celu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, alpha=alpha)


class SELU(_Activation):
    """A scaled ELU that keeps mean and variance (Klambauer et al. 2017, arXiv:1706.02515).

    For inputs of any shape.

    >>> nn.SELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-1.52 , -0.692,  0.   ,  1.051], dtype=float32)
    """

    op = "selu"


class GELU(_Activation):
    """`x * Phi(x)`, exactly ('none') or by PyTorch's tanh formula ('tanh').

    For inputs of any shape.

    >>> nn.GELU()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-0.046, -0.154,  0.   ,  0.841], dtype=float32)

    Args:
        approximate: 'none' for the error function, 'tanh' for its approximation.
    """

    op = "gelu"

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class SiLU(_Activation):
    """`x * sigmoid(x)`, also called swish.

    For inputs of any shape.

    >>> nn.SiLU()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-0.238, -0.189,  0.   ,  0.731], dtype=float32)
    """

    op = "silu"


class Mish(_Activation):
    """`x * tanh(softplus(x))`.

    For inputs of any shape.

    >>> nn.Mish()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-0.253, -0.221,  0.   ,  0.865], dtype=float32)
    """

    op = "mish"


class Sigmoid(_PlainActivation):
    """`1 / (1 + exp(-x))`.

    For inputs of any shape.

    >>> nn.Sigmoid()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([0.119, 0.378, 0.5  , 0.731], dtype=float32)
    """

    op = "sigmoid"


class LogSigmoid(_PlainActivation):
    """The logarithm of the sigmoid.

    For inputs of any shape.

    >>> nn.LogSigmoid()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-2.127, -0.974, -0.693, -0.313], dtype=float32)
    """

    op = "logsigmoid"


class Tanh(_PlainActivation):
    """The hyperbolic tangent.

    For inputs of any shape.

    >>> nn.Tanh()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-0.964, -0.462,  0.   ,  0.762], dtype=float32)
    """

    op = "tanh"


class Softsign(_PlainActivation):
    """`x / (1 + |x|)`.

    For inputs of any shape.

    >>> nn.Softsign()(nc.tensor([-1.0, 0.0, 3.0])).tolist()
    [-0.5, 0.0, 0.75]
    """

    op = "softsign"


class Softplus(_Activation):
    """`log(1 + exp(beta * x)) / beta`, linear where `beta * x > threshold`.

    For inputs of any shape.

    >>> nn.Softplus()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([0.127, 0.474, 0.693, 1.313], dtype=float32)
    """

    op = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Hardsigmoid(_Activation):
    """`clamp(x / 6 + 1/2, 0, 1)`.

    For inputs of any shape.

    >>> nn.Hardsigmoid()(nc.tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """

    op = "hard_sigmoid"


class Hardswish(_Activation):
    """`x * hard_sigmoid(x)`.

    For inputs of any shape.

    >>> nn.Hardswish()(nc.tensor([0.0, 1.5, 4.0])).tolist()
    [0.0, 1.125, 4.0]
    """

    op = "hard_swish"


class Hardtanh(_Activation):
    """`clamp(x, min_val, max_val)`.

    For inputs of any shape.

    >>> nn.Hardtanh()(nc.tensor([-4.0, 0.5, 4.0])).tolist()
    [-1.0, 0.5, 1.0]
    """

    op = "hard_tanh"

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace, min_val=min_val, max_val=max_val)


class Threshold(_Activation):
    """`x` where it is above `threshold`, else `value`.

    For inputs of any shape.

    >>> nn.Threshold(0.5, 9.0)(nc.tensor([0.25, 1.0])).tolist()
    [9.0, 1.0]
    """

    op = "threshold"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace, threshold=threshold, value=value)


class RReLU(_Activation):
    """`x` where positive, else `x` times a slope, drawn anew for each element in training.

    The slopes are uniform in `lower` to `upper`; in `eval()` the slope is the mean of the two.
    (Xu, Wang, Chen, Li 2015, arXiv:1505.00853)

    >>> nn.RReLU().eval()(nc.tensor([-3.0, 1.0])).numpy().round(3)
    array([-0.688,  1.   ], dtype=float32)
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
    """`x` where its magnitude is above `lambd`, else 0.

    For inputs of any shape.

    >>> nn.Hardshrink(0.5)(nc.tensor([-2.0, 0.25, 1.0])).tolist()
    [-2.0, 0.0, 1.0]
    """

    op = "hardshrink"


class Softshrink(_Shrink):
    """`x` moved towards 0 by `lambd`, and 0 where it would pass it.

    For inputs of any shape.

    >>> nn.Softshrink(0.5)(nc.tensor([-2.0, 0.25, 1.0])).tolist()
    [-1.5, 0.0, 0.5]
    """

    op = "softshrink"


class Tanhshrink(_PlainActivation):
    """`x - tanh(x)`.

    For inputs of any shape.

    >>> nn.Tanhshrink()(nc.tensor([-2.0, -0.5, 0.0, 1.0])).numpy().round(3)
    array([-1.036, -0.038,  0.   ,  0.238], dtype=float32)
    """

    op = "tanhshrink"


class GLU(_Activation):
    """`a * sigmoid(b)` of the two halves of `x` along `dim` (Dauphin et al. 2016, 1612.08083).

    For inputs of any shape with an even size along `dim`; others raise ShapeError.

    >>> nn.GLU()(nc.tensor([[1.0, 2.0, 0.0, 0.0]])).tolist()
    [[0.5, 1.0]]
    """

    op = "glu"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Softmax(_Activation):
    """`exp(x) / sum(exp(x))` along `dim`.

    For inputs of any shape.

    Without `dim` it is, as in PyTorch, 0 for tensors of one or three dimensions, else 1.

    >>> nn.Softmax(dim=1)(nc.tensor([[0.0, 0.0], [1.0, 1.0]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """

    op = "softmax"

    def __init__(self, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def forward(self, input: Any) -> Any:
        """`input` of any shape to the same shape."""
        return getattr(functional, self.op)(input, self._settings["dim"])


class LogSoftmax(Softmax):
    """The logarithm of the softmax along `dim`.

    For inputs of any shape.

    >>> nn.LogSoftmax(dim=1)(nc.tensor([[0.0, 0.0]])).numpy().round(3)
    array([[-0.693, -0.693]], dtype=float32)
    """

    op = "log_softmax"


class Softmin(Softmax):
    """The softmax of `-x` along `dim`.

    For inputs of any shape.

    >>> nn.Softmin(dim=0)(nc.tensor([0.0, 1.0])).numpy().round(3)
    array([0.731, 0.269], dtype=float32)
    """

    op = "softmin"


class Softmax2d(Softmax):
    """The softmax over the channels of (N, C, H, W) or (C, H, W).

    >>> nn.Softmax2d()(nc.zeros(1, 4, 2, 2))[0, :, 0, 0].tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    def __init__(self) -> None:
        super().__init__(-3)

    def extra_repr(self) -> str:
        """Nothing: there is one form of it."""
        return ""
