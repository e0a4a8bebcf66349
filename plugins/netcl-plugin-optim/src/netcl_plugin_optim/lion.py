"""Lion: steps of one size, in the direction of the sign of a mean of gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, final

from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Betas, settings


@final
class Lion(RuledOptimizer):
    """Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", arXiv:2302.06675).

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Lion([w], lr=0.5)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.tolist()
    [3.5, -1.5]

    PyTorch has no such optimizer; names and defaults are those of the paper's code. It wants a
    learning rate a third to a tenth of AdamW's, and a weight decay as much larger.

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        betas: The share of the mean in the direction, and the decay rate of the mean.
        weight_decay: Decoupled: each step first multiplies parameters by `1 - lr * weight_decay`.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/lion.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("exp_avg",)
    scalars: ClassVar[tuple[str, ...]] = ("lr", "one_minus_beta1", "one_minus_beta2")
    decoupled: ClassVar[bool] = True

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-4,
        betas: Betas = (0.9, 0.99),
        weight_decay: AtLeast0 = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...
