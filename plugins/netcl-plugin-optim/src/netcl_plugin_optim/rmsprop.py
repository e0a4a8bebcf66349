"""RMSprop: gradients divided by the root of a running mean of their squares."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, final

import numpy as np

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group, non_negative
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.slabs import Rule


@final
class RMSprop(Optimizer):
    """RMSprop (Tieleman, Hinton 2012) with PyTorch's defaults and formulas.

    Args:
        params: Tensors, or dicts with `params` and settings of their own.
        lr: The learning rate.
        alpha: The decay rate of the mean of squares.
        eps: Added to the root of that mean.
        weight_decay: The L2 penalty's factor, added to the gradient.
        momentum: How much of the last step's direction is kept; 0: none, and no state.
        centered: Divide by an estimate of the standard deviation instead (Graves 2013,
            arXiv:1308.0850).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
        )

    def _check(self, group: Group) -> None:
        non_negative("RMSprop", group, "lr", "alpha", "eps", "weight_decay", "momentum")
        if group["alpha"] > 1:
            raise AttributeValueError(message("RMSprop", f"alpha={group['alpha']}", "0 to 1"))

    def _states(self, group: Group) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        return ("square_avg", *momentum, *(("grad_avg",) if group["centered"] else ()))

    def _rule(self, group: Group, steps: int) -> Rule:
        scalars = {
            "lr": group["lr"],
            "alpha": group["alpha"],
            "one_minus_alpha": 1 - group["alpha"],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "momentum": group["momentum"],
        }
        flags = (("decay", group["weight_decay"] != 0),)
        update = partial(_update, self._states(group))
        return Rule("optim/rmsprop.cl.j2", flags, scalars, update)


def _update(
    names: tuple[str, ...],
    p: Any,
    g: Any,
    *states: Any,
    lr: float,
    alpha: float,
    one_minus_alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
) -> None:
    """The step on NumPy arrays, in place; `g` may be overwritten."""
    held = dict(zip(names, states, strict=True))
    if weight_decay:
        g += weight_decay * p
    square_avg, grad_avg = held["square_avg"], held.get("grad_avg")
    square_avg *= alpha
    square_avg += one_minus_alpha * g * g
    spread = square_avg
    if grad_avg is not None:
        grad_avg += one_minus_alpha * (g - grad_avg)
        spread = np.maximum(square_avg - grad_avg * grad_avg, 0)
    g /= np.sqrt(spread) + eps
    buffer = held.get("momentum_buffer")
    if buffer is not None:
        buffer *= momentum
        buffer += g
        g = buffer
    p -= lr * g
