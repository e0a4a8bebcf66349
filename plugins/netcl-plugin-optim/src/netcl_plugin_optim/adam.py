"""Adam, AdamW, Adamax and RAdam: a mean of gradients divided by a mean of their sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.means import TwoMeans, root_correction, step_size
from netcl_plugin_optim.powers import power
from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Betas, settings


class Adam(TwoMeans):
    """Adam (Kingma, Ba 2015, arXiv:1412.6980) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adam([w], lr=0.1)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(3)
    array([ 3.9, -1.9], dtype=float32)

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        betas: The decay rates of the means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: The L2 penalty's factor, added to the gradient.
        amsgrad: Divide by the largest mean of squares so far (Reddi, Kale, Kumar 2018,
            arXiv:1904.09237).
        maximize: Go up the gradient.
        decoupled_weight_decay: Let the decay bypass the means, as `AdamW` does.

    The means are kept in float32 (float64 for float64 parameters), so that half
    precision parameters learn as well.
    """

    template: ClassVar[str] = "optim/adam.cl.j2"
    states_if: ClassVar[Mapping[str, str]] = {"amsgrad": "max_exp_avg_sq"}

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        return {
            "step_size": step_size(group, steps),
            "root_correction": root_correction(group, steps),
        }


@final
class AdamW(Adam):
    """Adam whose weight decay bypasses the means (Loshchilov, Hutter 2019, arXiv:1711.05101).

    Each step first multiplies the parameters by `1 - lr * weight_decay`. Arguments as of
    `Adam`, with PyTorch's defaults.

    >>> w = nc.tensor([1.0], requires_grad=True)
    >>> optim.AdamW([w], lr=0.1).param_groups[0]["weight_decay"]
    0.01

    Its arguments are as of `Adam`.
    """

    @settings(decoupled_weight_decay=True)
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...


@final
class Adamax(RuledOptimizer):
    """Adamax (Kingma, Ba 2015, arXiv:1412.6980) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adamax([w], lr=0.5)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.tolist()
    [3.5, -1.5]

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        betas: The decay rates of the mean of the gradient and of its largest size.
        eps: Added to the gradient's size.
        weight_decay: The L2 penalty's factor, added to the gradient.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/adamax.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_inf")
    scalars: ClassVar[tuple[str, ...]] = ("one_minus_beta1", "beta2", "eps")
    counted_from: ClassVar[tuple[str, ...]] = ("lr", "beta1", "one_minus_beta1")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        return {"step_size": step_size(group, steps)}


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
