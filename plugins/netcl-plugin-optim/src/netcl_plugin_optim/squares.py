"""Adagrad, Adadelta, RMSprop: gradients divided by the root of a sum or mean of their squares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

import numpy as np

from netcl_core import Tensor
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, Share, settings


@final
class Adagrad(RuledOptimizer):
    """Adagrad (Duchi, Hazan, Singer 2011, JMLR 12) with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.Adagrad([w], lr=0.5)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.tolist()
    [3.5, -1.5]

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        lr_decay: How fast the rate falls: `lr / (1 + (t - 1) * lr_decay)` in step t.
        weight_decay: The L2 penalty's factor, added to the gradient.
        initial_accumulator_value: What the sums begin with.
        eps: Added to the root of the sum.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/adagrad.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("sum",)
    scalars: ClassVar[tuple[str, ...]] = ("eps",)
    counted_from: ClassVar[tuple[str, ...]] = ("lr", "lr_decay")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-2,
        lr_decay: AtLeast0 = 0.0,
        weight_decay: AtLeast0 = 0.0,
        initial_accumulator_value: AtLeast0 = 0.0,
        eps: AtLeast0 = 1e-10,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        return {"rate": group["lr"] / (1 + (steps - 1) * group["lr_decay"])}

    def _fresh(self, group: Group, p: Tensor) -> dict[str, Any]:
        begin = group["initial_accumulator_value"]
        return {"sum": np.full(p.shape, begin)} if begin else {}


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
