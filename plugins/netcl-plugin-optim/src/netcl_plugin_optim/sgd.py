"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group
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
