"""Initialisation: functions that fill a tensor, drawing from a generator or the process's.

Small tensors are drawn on the host in double precision and rounded to the tensor's
dtype; large ones where they are, by the kernels of `nc.rand` and `nc.randn`. Both give the same
numbers on every device, so a seed (`netcl_core.manual_seed`) gives the same model.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor, host_generator
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_core.plugins import absent

#: From so many elements on a tensor is drawn by its device. The host draws fewer within the time
#: that a CPU's runtime takes to build the kernels.
_LARGE: Final = 1 << 20


def _fill(tensor: Tensor, values: Any) -> Tensor:
    """The tensor, with the values of a tensor or array, in its own dtype."""
    tensor.overwrite(values)
    return tensor


def _drawn(tensor: Tensor, name: str, low: float, scale: float, generator: Any) -> Any:
    """What the op `name` draws times `scale`, and `low` more; float32 or double, on the device."""
    dtype = "float64" if tensor.dtype == "float64" else "float32"
    draw = getattr(ag, name)
    return draw(tensor.shape, dtype=dtype, device=tensor.device, generator=generator) * scale + low


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with numbers uniform in [a, b); returns the tensor, as all functions here do.

    For tensors of any shape.

    >>> w = nn.init.uniform_(nc.empty(1000), -1.0, 1.0)
    >>> w.min().item() >= -1, w.max().item() <= 1
    (True, True)
    """
    if tensor.size >= _LARGE:
        return _fill(tensor, _drawn(tensor, "rand", a, b - a, generator))
    return _fill(tensor, (generator or host_generator()).uniform(a, b, tensor.shape))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with normally distributed numbers.

    For tensors of any shape.

    >>> generator = nc.manual_seed(0)
    >>> w = nn.init.normal_(nc.empty(1000), 1.0, 0.1)
    >>> abs(w.mean().item() - 1) < 0.02
    True

    Args:
        tensor: A tensor, which is filled in place without a gradient.
        std: The standard deviation.
    """
    if tensor.size >= _LARGE:
        return _fill(tensor, _drawn(tensor, "randn", mean, std, generator))
    return _fill(tensor, (generator or host_generator()).normal(mean, std, tensor.shape))


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with normally distributed numbers; what lies outside [a, b] is drawn again.

    For tensors of any shape.

    Raises AttributeValueError if `a` is not below `b` or the interval lies beyond five
    standard deviations, where hardly any number is.

    >>> w = nn.init.trunc_normal_(nc.empty(1000))
    >>> abs(w).max().item() <= 2
    True

    Args:
        tensor: A tensor, which is filled in place without a gradient.
        mean: The mean.
        std: The standard deviation.
    """
    if not (a < b and a < mean + 5 * std and b > mean - 5 * std):
        given = f"a={a}, b={b} with mean={mean}, std={std}"
        expected = "a < b within five standard deviations of the mean"
        raise AttributeValueError(message("trunc_normal_", given, expected))
    if tensor.size >= _LARGE:
        return _truncated(tensor, mean, std, a, b, generator)
    generator = generator or host_generator()
    values = generator.normal(mean, std, tensor.shape)
    while (outside := (values < a) | (values > b)).any():
        values[outside] = generator.normal(mean, std, int(outside.sum()))
    return _fill(tensor, values)


def _truncated(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """The quantiles of uniform numbers between those of the ends."""
    width = std * math.sqrt(2)
    low, high = (math.erf((end - mean) / width) for end in (a, b))
    quantiles = ag.erfinv(_drawn(tensor, "rand", low, high - low, generator))
    return _fill(tensor, ag.clamp(quantiles * width + mean, a, b))


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value.

    For tensors of any shape.

    >>> nn.init.constant_(nc.empty(3), 0.5).tolist()
    [0.5, 0.5, 0.5]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
        val: The number.
    """
    return _fill(tensor, Tensor.full(tensor.shape, val, tensor.dtype, tensor.device))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    For tensors of any shape.

    >>> nn.init.zeros_(nc.empty(2)).tolist()
    [0.0, 0.0]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    For tensors of any shape.

    >>> nn.init.ones_(nc.empty(2)).tolist()
    [1.0, 1.0]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    return constant_(tensor, 1.0)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *kernel); raises ShapeError below two dimensions.

    >>> nn.init.fans(nc.empty(8, 3, 5, 5))
    (75, 200)

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    if tensor.ndim < 2:
        given = f"a tensor of shape {tensor.shape}"
        expected, remedy = "at least two dimensions", "Use uniform_ or zeros_ for a bias"
        raise ShapeError(message("init", given, expected, remedy))
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's weights are widened, as in PyTorch.

    `param` is leaky_relu's slope. Raises AttributeValueError for an unknown name.

    >>> round(nn.init.calculate_gain("relu"), 3), nn.init.calculate_gain("linear")
    (1.414, 1.0)
    """
    slope = 0.01 if param is None else param
    gains = {
        "linear": 1.0,
        **{f"conv{kind}{n}d": 1.0 for kind in ("", "_transpose") for n in (1, 2, 3)},
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + slope * slope)),
        "selu": 3 / 4,
    }
    if nonlinearity not in gains:
        known = "one of " + ", ".join(gains)
        raise AttributeValueError(message("init", f"nonlinearity={nonlinearity!r}", known))
    return gains[nonlinearity]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise AttributeValueError(message("init", f"mode={mode!r}", "'fan_in' or 'fan_out'"))
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(1, fan))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Uniform with variance gain^2 / fan (He et al. 2015, arXiv:1502.01852).

    For shapes (out, in, ...), of two dimensions at least; others raise ShapeError.

    >>> w = nn.init.kaiming_uniform_(nc.empty(2, 6))
    >>> abs(w).max().item() <= 1  # sqrt(6 / 6)
    True

    Args:
        a: The slope of the leaky_relu that follows.
        mode: 'fan_in' keeps the variance of the forward pass, 'fan_out' of the backward pass.
        nonlinearity: See `calculate_gain`.
        tensor: A tensor, which is filled in place without a gradient.
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal with variance gain^2 / fan; arguments as of `kaiming_uniform_`.

    For shapes (out, in, ...), of two dimensions at least; others raise ShapeError.

    >>> nn.init.kaiming_normal_(nc.empty(2, 4)).shape
    (2, 4)

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out) (Glorot, Bengio 2010).

    For shapes (out, in, ...), of two dimensions at least; others raise ShapeError.

    >>> w = nn.init.xavier_uniform_(nc.empty(2, 4))
    >>> abs(w).max().item() <= 1  # sqrt(6 / (2 + 4))
    True

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    bound = gain * math.sqrt(6 / max(1, sum(fans(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out) (Glorot, Bengio 2010).

    For shapes (out, in, ...), of two dimensions at least; others raise ShapeError.

    >>> nn.init.xavier_normal_(nc.empty(2, 4)).shape
    (2, 4)

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    std = gain * math.sqrt(2 / max(1, sum(fans(tensor))))
    return normal_(tensor, 0.0, std, generator)


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, as far as it goes; raises ShapeError for another rank.

    >>> nn.init.eye_(nc.empty(2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    if tensor.ndim != 2:
        raise ShapeError(message("eye_", f"a tensor of shape {tensor.shape}", "two dimensions"))
    return _fill(tensor, np.eye(tensor.shape[0], tensor.shape[1]))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make a convolution's weight (out, in, *kernel) hand its channels through.

    Raises ShapeError unless there are three to five dimensions and `out` is a multiple of
    the groups.

    >>> nn.init.dirac_(nc.empty(1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
    """
    if not 3 <= tensor.ndim <= 5 or groups < 1 or tensor.shape[0] % groups:
        given = f"a tensor of shape {tensor.shape} in {groups} groups"
        expected = "three to five dimensions, the first a multiple of the groups"
        raise ShapeError(message("dirac_", given, expected))
    values = np.zeros(tensor.shape)
    outputs = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    for group in range(groups):
        for k in range(min(outputs, tensor.shape[1])):
            values[(group * outputs + k, k, *middle)] = 1
    return _fill(tensor, values)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with orthonormal rows (or columns, whichever are fewer) times `gain`.

    A tensor of more dimensions counts as a matrix of its first one and the rest
    (Saxe et al. 2013, arXiv:1312.6120). Raises ShapeError below two dimensions.

    >>> w = nn.init.orthogonal_(nc.empty(3, 3))
    >>> np.allclose(w @ w.T, np.eye(3), atol=1e-5)
    True
    """
    fans(tensor)
    rows = tensor.shape[0]
    columns = math.prod(tensor.shape[1:])
    flat = (generator or host_generator()).normal(size=(max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(flat)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)  # uniform over all such matrices
    return _fill(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill a matrix with normal numbers and set a share of each column to zero (Martens 2010).

    Raises ShapeError for another rank, AttributeValueError for a share outside [0, 1].

    >>> w = nn.init.sparse_(nc.empty(10, 4), sparsity=0.5)
    >>> (w == 0).sum(0).tolist()
    [5, 5, 5, 5]

    Args:
        tensor: A tensor, which is filled in place without a gradient.
        std: The standard deviation.
    """
    if tensor.ndim != 2:
        raise ShapeError(message("sparse_", f"a tensor of shape {tensor.shape}", "two dimensions"))
    if not 0 <= sparsity <= 1:
        raise AttributeValueError(message("sparse_", f"sparsity={sparsity}", "0 to 1"))
    generator = generator or host_generator()
    values = generator.normal(0.0, std, tensor.shape)
    zeros = math.ceil(sparsity * tensor.shape[0])
    for column in range(tensor.shape[1]):
        values[generator.permutation(tensor.shape[0])[:zeros], column] = 0
    return _fill(tensor, values)


def __getattr__(name: str) -> Any:
    return absent("nn.init", name, [each for each in globals() if each.endswith("_")])
