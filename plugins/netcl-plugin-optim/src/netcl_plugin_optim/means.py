"""The running means of the gradient and of its square, on which Adam and its kin base a step."""

from __future__ import annotations

import math
from typing import ClassVar

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


def step_size(group: Group, steps: int) -> float:
    """The rate over what a mean of `steps` gradients that began at 0 has of them."""
    return float(group["lr"] / (1 - power(group["betas"][0], steps)))


def root_correction(group: Group, steps: int) -> float:
    """The root of what the mean of squares has of them."""
    return math.sqrt(1 - power(group["betas"][1], steps))
