"""SGD with momentum, and ASGD: averages of the parameters on a way whose rate falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.powers import root_power
from netcl_plugin_optim.ruled import RuledOptimizer
from netcl_plugin_optim.settings import AtLeast0, settings


@final
class SGD(RuledOptimizer):
    """Stochastic gradient descent with PyTorch's defaults and formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.25, momentum=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     ag.sum(ag.square(w)).backward()
    ...     optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        momentum: How much of the last step's direction is kept; 0: none, and no state.
        dampening: The share of a gradient that does not enter the direction.
        weight_decay: The L2 penalty's factor, added to the gradient.
        nesterov: Look ahead along the direction (Sutskever et al. 2013); needs momentum
            and no dampening.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/sgd.cl.j2"
    states_if: ClassVar[Mapping[str, str]] = {"momentum": "momentum_buffer"}
    scalars: ClassVar[tuple[str, ...]] = ("lr", "momentum")
    counted_from: ClassVar[tuple[str, ...]] = ("dampening",)
    flags: ClassVar[tuple[str, ...]] = ("nesterov",)

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-3,
        momentum: AtLeast0 = 0.0,
        dampening: float = 0.0,
        weight_decay: AtLeast0 = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _check(self, group: Group) -> None:
        super()._check(group)
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            given = f"momentum={group['momentum']}, dampening={group['dampening']}"
            expected = "momentum > 0 and no dampening with nesterov=True"
            raise AttributeValueError(message("SGD", given, expected))

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        return {"share": 1.0 if steps == 1 else 1.0 - group["dampening"]}


@final
class ASGD(RuledOptimizer):
    """Averaged SGD (Polyak, Juditsky 1992) with PyTorch's defaults and formulas.

    The averages are in `state_dict()`, as `ax`; they begin with the step after `t0`, until then
    the parameters themselves.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.ASGD([w], lr=0.25, lambd=0.0, t0=0.0)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     ag.sum(ag.square(w)).backward()
    ...     optimizer.step()
    >>> w.tolist(), optimizer.state_dict()["state"][0]["ax"].tolist()
    ([1.0, -0.5], [1.0, -0.5])

    The rate of a step follows from the settings of now, and in PyTorch from the settings of the
    step before.

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The first learning rate; of step t it is `lr / (1 + lambd * lr * (t - 1)) ** alpha`.
        lambd: The share of a parameter that a step takes away, over the rate.
        alpha: How fast the rate falls.
        t0: The step after which averages begin.
        weight_decay: The L2 penalty's factor, added to the gradient.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/asgd.cl.j2"
    states: ClassVar[tuple[str, ...]] = ("ax",)
    counted_from: ClassVar[tuple[str, ...]] = ("lr", "lambd", "alpha", "t0")

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-2,
        lambd: AtLeast0 = 1e-4,
        alpha: AtLeast0 = 0.75,
        t0: AtLeast0 = 1e6,
        weight_decay: AtLeast0 = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        lr, lambd = group["lr"], group["lambd"]
        eta = lr / root_power(1 + lambd * lr * (steps - 1), group["alpha"])
        mu = 1 / max(1, steps - 1 - group["t0"])
        return {"eta": eta, "mu": mu, "remaining": 1 - lambd * eta}

    def _extras(self, group: Group, steps: int) -> dict[str, Any]:
        upcoming = self._counted(group, steps + 1)
        return {name: upcoming[name] for name in ("eta", "mu")}
