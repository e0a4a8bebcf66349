"""Adadelta: steps in the unit of the parameters, by the root of a mean of past steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, final

from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Share, settings


@final
class Adadelta(RuledOptimizer):
    """Adadelta (Zeiler 2012, arXiv:1212.5701) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adadelta([w], lr=100.0)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(3)
    array([ 3.684, -1.684], dtype=float32)

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        rho: The decay rate of the means of squares.
        eps: Added to both means.
        weight_decay: The L2 penalty's factor, added to the gradient.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/adadelta.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("square_avg", "acc_delta")
    scalars: ClassVar[tuple[str, ...]] = ("lr", "rho", "one_minus_rho", "eps")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1.0,
        rho: Share = 0.9,
        eps: AtLeast0 = 1e-6,
        weight_decay: AtLeast0 = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...
