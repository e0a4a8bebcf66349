"""Adam and AdamW: steps scaled by running means of gradients and of their squares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, final

import numpy as np

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group, non_negative
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.slabs import Rule


class _Adam(Optimizer):
    """What both share; `decoupled` says whether the weight decay bypasses the means."""

    decoupled: ClassVar[bool]

    def _check(self, group: Group) -> None:
        who = type(self).__name__
        non_negative(who, group, "lr", "eps", "weight_decay")
        betas = group["betas"]
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise AttributeValueError(message(who, f"betas={betas!r}", "two numbers in [0, 1)"))

    def _states(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq")

    def _rule(self, group: Group, steps: int) -> Rule:
        beta1, beta2 = group["betas"]
        decay = group["weight_decay"]
        scalars = {
            "step_size": group["lr"] / (1 - beta1**steps),
            "one_minus_beta1": 1 - beta1,
            "beta2": beta2,
            "one_minus_beta2": 1 - beta2,
            "root_correction": (1 - beta2**steps) ** 0.5,
            "eps": group["eps"],
            "weight_decay": 0.0 if self.decoupled else decay,
            "kept": 1 - group["lr"] * decay if self.decoupled else 1.0,
        }
        flags = (
            ("decay", decay != 0 and not self.decoupled),
            ("shrink", decay != 0 and self.decoupled),
        )
        return Rule("optim/adam.cl.j2", flags, scalars, _update)


@final
class Adam(_Adam):
    """Adam (Kingma, Ba 2015, arXiv:1412.6980) with PyTorch's defaults and formulas.

    Args:
        params: Tensors, or dicts with `params` and settings of their own.
        lr: The learning rate.
        betas: The decay rates of the means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: The L2 penalty's factor, added to the gradient.

    The means are kept in float32 (float64 for float64 parameters), so that half
    precision parameters learn as well.
    """

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


@final
class AdamW(_Adam):
    """Adam whose weight decay bypasses the means (Loshchilov, Hutter 2019, arXiv:1711.05101).

    Each step first multiplies the parameters by `1 - lr * weight_decay`. Arguments as of
    `Adam`, with PyTorch's defaults.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)


def _update(
    p: Any,
    g: Any,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    step_size: float,
    one_minus_beta1: float,
    beta2: float,
    one_minus_beta2: float,
    root_correction: float,
    eps: float,
    weight_decay: float,
    kept: float,
) -> None:
    """The step on NumPy arrays, in place; `g` may be overwritten."""
    if weight_decay:
        g += weight_decay * p
    if kept != 1:
        p *= kept
    exp_avg += one_minus_beta1 * (g - exp_avg)
    exp_avg_sq *= beta2
    exp_avg_sq += one_minus_beta2 * g * g
    p -= step_size * exp_avg / (np.sqrt(exp_avg_sq) / root_correction + eps)
