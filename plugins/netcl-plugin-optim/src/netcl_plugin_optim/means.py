"""The running means of the gradient and of its square, on which Adam and its kin base a step."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.powers import power
from netcl_plugin_optim.ruled import RuledOptimizer


class TwoMeans(RuledOptimizer):
    """A rule of both means; its own is what a step makes of them."""

    states: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")
    scalars: ClassVar[tuple[str, ...]] = ("one_minus_beta1", "beta2", "one_minus_beta2", "eps")
    counted_from: ClassVar[tuple[str, ...]] = (
        *("lr", "beta1", "one_minus_beta1", "beta2", "one_minus_beta2"),
    )

    def update(
        self,
        p: Any,
        g: Any,
        *,
        exp_avg: Any,
        exp_avg_sq: Any,
        one_minus_beta1: float,
        beta2: float,
        one_minus_beta2: float,
        **own: Any,
    ) -> None:
        exp_avg += one_minus_beta1 * (g - exp_avg)
        exp_avg_sq *= beta2
        exp_avg_sq += one_minus_beta2 * g * g
        self._move(p, g, exp_avg, exp_avg_sq, **own)

    @abstractmethod
    def _move(self, *arrays: Any, **own: Any) -> None:
        """Change p from g, exp_avg and exp_avg_sq, NumPy arrays; the means have g already."""


def step_size(group: Group, steps: int) -> float:
    """The rate over what a mean of `steps` gradients that began at 0 has of them."""
    return float(group["lr"] / (1 - power(group["betas"][0], steps)))


def root_correction(group: Group, steps: int) -> float:
    """The root of what the mean of squares has of them."""
    return math.sqrt(1 - power(group["betas"][1], steps))
