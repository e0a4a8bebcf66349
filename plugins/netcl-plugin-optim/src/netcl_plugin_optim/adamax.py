"""Adamax: Adam with the largest gradient of late in place of the mean of squares."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, final

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.means import step_size
from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Betas, settings


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
