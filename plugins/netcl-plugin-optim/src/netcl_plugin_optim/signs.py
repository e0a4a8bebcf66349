"""Lion and Rprop: steps by the sign of a gradient or of a mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, final

import numpy as np

from netcl_core import Tensor
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import Around1, AtLeast0, Betas, Bounds, settings


@final
class Lion(RuledOptimizer):
    """Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", arXiv:2302.06675).

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Lion([w], lr=0.5)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.tolist()
    [3.5, -1.5]

    PyTorch has no such optimizer; names and defaults come from the paper's code. It wants a
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


@final
class Rprop(RuledOptimizer):
    """Resilient backpropagation (Riedmiller, Braun 1993) with PyTorch's defaults and formulas.

    An element's step grows while its gradient keeps its sign. Where the sign turns, it shrinks, and
    the element waits for a step. It is for gradients of all data, not of batches.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Rprop([w], lr=0.5, etas=(0.5, 2.0))
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     ag.sum(ag.square(w)).backward()
    ...     optimizer.step()
    >>> w.tolist()
    [2.5, -0.5]

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The size of the first step.
        etas: What a step shrinks and grows by.
        step_sizes: The smallest step and the largest.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/rprop.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("prev", "step_size")
    scalars: ClassVar[tuple[str, ...]] = ("etaminus", "etaplus", "step_size_min", "step_size_max")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-2,
        etas: Around1 = (0.5, 1.2),
        step_sizes: Bounds = (1e-6, 50.0),
        *,
        maximize: bool = False,
    ) -> None: ...

    def _fresh(self, group: Group, p: Tensor) -> dict[str, Any]:
        return {"step_size": np.full(p.shape, group["lr"])}
