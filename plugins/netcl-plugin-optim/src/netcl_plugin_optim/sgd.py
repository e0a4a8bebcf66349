"""SGD: stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group, non_negative
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.slabs import Rule


@final
class SGD(Optimizer):
    """Stochastic gradient descent with PyTorch's defaults and formulas.

    Args:
        params: Tensors, or dicts with `params` and settings of their own.
        lr: The learning rate.
        momentum: How much of the last step's direction is kept; 0: none, and no state.
        dampening: The share of a gradient that does not enter the direction.
        weight_decay: The L2 penalty's factor, added to the gradient.
        nesterov: Look ahead along the direction (Sutskever et al. 2013); needs momentum
            and no dampening.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def _check(self, group: Group) -> None:
        non_negative("SGD", group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            given = f"momentum={group['momentum']}, dampening={group['dampening']}"
            expected = "momentum > 0 and no dampening with nesterov=True"
            raise AttributeValueError(message("SGD", given, expected))

    def _states(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _rule(self, group: Group, steps: int) -> Rule:
        scalars = {
            "lr": group["lr"],
            "momentum": group["momentum"],
            "share": 1.0 if steps == 1 else 1.0 - group["dampening"],
            "weight_decay": group["weight_decay"],
        }
        flags = (("decay", group["weight_decay"] != 0), ("nesterov", bool(group["nesterov"])))
        update = _update_nesterov if group["nesterov"] else _update
        return Rule("optim/sgd.cl.j2", flags, scalars, update)


def _direction(p: Any, g: Any, buffers: Any, momentum: float, share: float, decay: float) -> Any:
    """The gradient with weight decay; the momentum buffer, if there is one, takes it in."""
    if decay:
        g += decay * p
    for buffer in buffers:
        buffer *= momentum
        buffer += share * g
    return g


def _update(
    p: Any, g: Any, *buffers: Any, lr: float, momentum: float, share: float, weight_decay: float
) -> None:
    """The step on NumPy arrays, in place; `g` may be overwritten."""
    g = _direction(p, g, buffers, momentum, share, weight_decay)
    p -= lr * (buffers[0] if buffers else g)


def _update_nesterov(
    p: Any, g: Any, buffer: Any, *, lr: float, momentum: float, share: float, weight_decay: float
) -> None:
    """The step with a look ahead, in place; `g` may be overwritten."""
    g = _direction(p, g, (buffer,), momentum, share, weight_decay)
    p -= lr * (g + momentum * buffer)
