"""Adam and AdamW: steps scaled by running means of gradients and of their squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.means import TwoMeans, root_correction, step_size
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
