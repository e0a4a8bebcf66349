"""RAdam: Adam whose first steps wait for a mean of squares that can be relied on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar, final

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.means import TwoMeans, step_size
from netcl_plugin_optim.powers import power
from netcl_plugin_optim.settings import AtLeast0, Betas, settings


@final
class RAdam(TwoMeans):
    """RAdam (Liu et al. 2020, arXiv:1908.03265) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.RAdam([w], lr=0.1)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(3)
    array([ 3.2, -1.6], dtype=float32)

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        betas: The decay rates of the means of the gradient and of its square.
        eps: Added to the root of the mean of squares.
        weight_decay: The L2 penalty's factor, added to the gradient.
        decoupled_weight_decay: Let the decay bypass the means, as `AdamW` does.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/radam.cl.j2"

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        rectified = _rectified(group["betas"][1], steps)
        return {"step_size": step_size(group, steps), "rectified": rectified}


def _rectified(beta2: float, steps: int) -> float:
    """The factor on the adaptive step; 0 while the mean of squares is of too few gradients."""
    rest = 1 - power(beta2, steps)
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * steps * (1 - rest) / rest
    if length <= 5:
        return 0.0
    above = rest * (length - 4) * (length - 2) * longest
    return math.sqrt(above / ((longest - 4) * (longest - 2) * length))
