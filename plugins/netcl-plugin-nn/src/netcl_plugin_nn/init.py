"""Initialisation: functions that fill a tensor in place, drawing from one generator.

Numbers are drawn on the host in double precision and rounded to the tensor's
dtype, so a seed gives the same model on every device.
"""

from __future__ import annotations

import math
import threading
from typing import Any, Final

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_core.tensors import Tensor

_lock: Final = threading.Lock()
_generator = np.random.default_rng()


def manual_seed(seed: int) -> None:
    """Restart the generator of all functions here."""
    global _generator
    with _lock:
        _generator = np.random.default_rng(seed)


def _fill(tensor: Tensor, values: Any) -> Tensor:
    return tensor.copy_(np.asarray(values).astype(DTYPES[tensor.dtype].numpy))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with numbers uniform in [a, b); returns the tensor, as all functions here do."""
    with _lock:
        values = _generator.uniform(a, b, tensor.shape)
    return _fill(tensor, values)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with normally distributed numbers."""
    with _lock:
        values = _generator.normal(mean, std, tensor.shape)
    return _fill(tensor, values)


def constant_(tensor: Tensor, value: float) -> Tensor:
    """Fill with one value."""
    return _fill(tensor, np.full(tensor.shape, value))


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def fans(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out) of a weight (out, in, *kernel); raises ShapeError below two dimensions."""
    if tensor.ndim < 2:
        given = f"a tensor of shape {tensor.shape}"
        expected, remedy = "at least two dimensions", "Use uniform_ or zeros_ for a bias"
        raise ShapeError(message("init", given, expected, remedy))
    receptive = math.prod(tensor.shape[2:])
    return tensor.shape[1] * receptive, tensor.shape[0] * receptive


def calculate_gain(nonlinearity: str, a: float | None = None) -> float:
    """The factor by which a nonlinearity's weights are widened, as in PyTorch.

    `a` is leaky_relu's slope. Raises AttributeValueError for an unknown name.
    """
    slope = 0.01 if a is None else a
    gains = {
        "linear": 1.0,
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
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform with variance gain^2 / fan (He et al. 2015, arXiv:1502.01852).

    Args:
        a: The slope of the leaky_relu that follows.
        mode: 'fan_in' keeps the variance of the forward pass, 'fan_out' of the backward pass.
        nonlinearity: See `calculate_gain`.
    """
    bound = math.sqrt(3) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Normal with variance gain^2 / fan; arguments as of `kaiming_uniform_`."""
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan_in + fan_out) (Glorot, Bengio 2010)."""
    bound = gain * math.sqrt(6 / max(1, sum(fans(tensor))))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with variance 2 gain^2 / (fan_in + fan_out) (Glorot, Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / max(1, sum(fans(tensor)))))
