"""RMSprop: gradients divided by the root of a running mean of their squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Share, settings


@final
class RMSprop(RuledOptimizer):
    """RMSprop (Tieleman, Hinton 2012) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.RMSprop([w], lr=0.1, alpha=0.75)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(3)
    array([ 3.8, -1.8], dtype=float32)

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        alpha: The decay rate of the mean of squares.
        eps: Added to the root of that mean.
        weight_decay: The L2 penalty's factor, added to the gradient.
        momentum: How much of the last step's direction is kept; 0: none, and no state.
        centered: Divide by an estimate of the standard deviation instead (Graves 2013,
            arXiv:1308.0850).
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/rmsprop.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("square_avg",)
    states_if: ClassVar[Mapping[str, str]] = {
        "momentum": "momentum_buffer",
        "centered": "grad_avg",
    }
    scalars: ClassVar[tuple[str, ...]] = ("lr", "alpha", "one_minus_alpha", "eps", "momentum")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-2,
        alpha: Share = 0.99,
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 0.0,
        momentum: AtLeast0 = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...
