"""Noise in training: dropout of whole channels, of networks with SELU, and Gumbel's noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_tensor.axes import axis
from netcl_plugin_tensor.dropout import RANDOM_MASK, probability

#: What a SELU tends to for small inputs: its scale times its alpha (Klambauer et al. 2017).
_SATURATION: Final = 1.0507009873554805 * 1.6732632423543772


def _kept(shape: tuple[int, ...], x: Any, p: float) -> Any:
    """1 / (1 - p), or 0 with probability p."""
    ones = Tensor.ones(shape, x.dtype, x.device)
    return RANDOM_MASK(ones, nc.random_state(x.device), p)


def _channel_dropout(count: int, batches: str, without: int) -> Callable[..., Any]:
    """Dropout of channels with `count` axes each; `without` is how many lead without a batch."""
    name = f"dropout{count}d"

    def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
        p, operand = probability(name, p), ag.as_operand(x)
        if operand.ndim not in (count + 1, count + 2):
            given, expected = f"x of shape {operand.shape}", f"{count + 1} or {count + 2} axes"
            raise ShapeError(message(name, given, expected))
        if not training or p == 0:
            return x
        lead = 2 if operand.ndim == count + 2 else without
        shape = (*operand.shape[:lead], *[1] * (operand.ndim - lead))
        return ag.mul(operand, _kept(shape, operand, p))

    dropout.__name__ = dropout.__qualname__ = name
    dropout.__doc__ = (
        f"Zero whole channels of x {batches} with probability p; scale the others by 1 / (1 - p).\n"
        f"\n>>> ag.{name}(nc.ones({', '.join(map(str, range(2, count + 4)))})).shape\n"
        f"{tuple(range(2, count + 4))}\n"
        "\nOther shapes raise ShapeError."
        "\nArguments as of `dropout`; of a sample and channel all elements stay, or none.\n"
        "(Tompson et al. 2015, arXiv:1411.4280)"
    )
    return dropout


dropout1d = _channel_dropout(1, "(N, C, L) or (C, L)", 1)
dropout2d = _channel_dropout(2, "(N, C, H, W), or as in PyTorch (N, C, L),", 2)
dropout3d = _channel_dropout(3, "(N, C, D, H, W) or (C, D, H, W)", 1)


def alpha_dropout(x: Any, p: float = 0.5, training: bool = False) -> Any:
    """Set elements to SELU's saturation with probability p, then keep mean and variance.

    >>> ag.alpha_dropout(nc.ones(5), 0.5).shape
    (5,)

    Args:
        x: A floating tensor, whose elements have mean 0 and variance 1.
        p: The probability, 0 <= p <= 1.
        training: False returns `x` as it is.

    (Klambauer, Unterthiner, Mayr, Hochreiter 2017, arXiv:1706.02515)
    """
    return _alpha_dropout("alpha_dropout", x, p, training, whole=False)


def feature_alpha_dropout(x: Any, p: float = 0.5, training: bool = False) -> Any:
    """`alpha_dropout` of whole channels of x (N, C, ...): of each all elements stay, or none.

    >>> ag.feature_alpha_dropout(nc.ones(2, 3, 4, 4), 0.5).shape
    (2, 3, 4, 4)

    Args:
        p: The probability of a zero, from 0 to 1.
        training: Whether elements are dropped; else nothing changes.
    """
    return _alpha_dropout("feature_alpha_dropout", x, p, training, whole=True)


def _alpha_dropout(who: str, x: Any, p: float, training: bool, whole: bool) -> Any:
    p, operand = probability(who, p), ag.as_operand(x)
    if not training or p == 0 or not operand.size:
        return x
    if not DTYPES[operand.dtype].floating:
        raise DtypeError(message(who, f"a {operand.dtype} tensor", "a floating dtype"))
    if whole and operand.ndim < 2:
        raise ShapeError(message(who, f"x of shape {operand.shape}", "(N, C, ...)"))
    if p == 1:
        return ag.mul(operand, 0.0)
    shape = operand.shape
    if whole:
        shape = (*shape[:2], *[1] * (operand.ndim - 2))
    scale = 1 / math.sqrt((_SATURATION**2 * p + 1) * (1 - p))
    stays = ag.ne(_kept(shape, operand, p), 0)
    shift = _SATURATION * scale * p
    return ag.add(
        ag.mul(operand, ag.where(stays, scale, 0.0).astype(operand.dtype)),
        ag.where(stays, shift, shift - _SATURATION * scale).astype(operand.dtype),
    )


def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """Samples of a categorical distribution with a gradient: softmax((logits + noise) / tau).

    >>> y = ag.gumbel_softmax(nc.zeros(4, 3), hard=True)
    >>> y.sum(1).numpy().round(3)
    array([1., 1., 1., 1.], dtype=float32)

    Args:
        logits: Logarithms of weights, floating.
        tau: The temperature, above 0: the lower, the nearer the samples are to one-hot.
        hard: Whether the result is one-hot, with the gradient of the soft one.
        eps: Has no effect, as in PyTorch.
        dim: The axis of the categories.

    (Jang, Gu, Poole 2016, arXiv:1611.01144)

    Raises:
        DtypeError: Unless given a floating dtype.
        AttributeValueError: Unless given a number above 0.
    """
    x = ag.as_operand(logits)
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("gumbel_softmax", f"a {x.dtype} tensor", "a floating dtype"))
    if not isinstance(tau, (int, float)) or not tau > 0:
        raise AttributeValueError(message("gumbel_softmax", f"tau={tau!r}", "a number above 0"))
    place = axis("gumbel_softmax", dim, x.ndim)
    with ag.no_grad():  # at least 2^-25, so that no noise is infinite
        drawn = ag.clamp(ag.rand(x.shape, dtype="float32", device=x.device), min=2.0**-25)
        drawn = drawn.astype("float64") if x.dtype == "float64" else drawn
        noise = ag.neg(ag.log(ag.neg(ag.log(drawn)))).astype(x.dtype)
    soft = ag.softmax(ag.div(ag.add(x, noise), float(tau)), place)
    if not hard:
        return soft
    names = ag.arange(x.shape[place] if x.ndim else 1, device=x.device)
    along = [-1 if i == place else 1 for i in range(x.ndim)]
    first = ag.eq(ag.argmax(soft, place, True), ag.reshape(names, tuple(along)))
    return ag.add(ag.sub(first.astype(x.dtype), soft.detach()), soft)


OPERATORS = tuple(
    composite(function)
    for function in (
        dropout1d, dropout2d, dropout3d, alpha_dropout, feature_alpha_dropout, gumbel_softmax,
    )
)  # fmt: skip
