"""CyclicLR: the rate goes up and down between two bounds, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, final

from netcl_plugin_optim.cycled import Cycled, set_momentum
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.lambdas import kept_of, restore
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import SavedAttribute, positive

#: The modes, each with what its share of the height is a function of.
_SCALES: Final = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}


@final
class CyclicLR(Cycled):
    """Triangles (Smith 2017, arXiv:1506.01186) between two rates; `step()` after each batch.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = optim.lr_scheduler.CyclicLR(optimizer, 0.5, 1.5, step_size_up=2)
    >>> rates = schedule.get_last_lr()
    >>> for _ in range(5):
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [0.5, 1.0, 1.5, 1.0, 0.5, 1.0]

    Args:
        base_lr, max_lr: The bounds of the rate, or of each group's.
        step_size_up, step_size_down: Steps up, and down; default for down: as many.
        mode: 'triangular'; 'triangular2': each triangle half as high as the last; 'exp_range': the
            height times `gamma` in each step.
        scale_fn: A function that gives the share of the height instead: of the number of the
            triangle, from 1, or with `scale_mode` 'iterations' of the step.
        cycle_momentum: Whether the momentum (Adam: the first beta) falls from
            `max_momentum` to `base_momentum` while the rate rises, and back.

    Raises:
        AttributeValueError: settings that do not fit each other.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        SavedAttribute.__init__(self, optimizer)
        positive("CyclicLR", "step_size_up", step_size_up)
        if scale_fn is None and mode not in _SCALES:
            raise self._mistake(f"mode={mode!r}", f"one of {', '.join(_SCALES)}, or a scale_fn")
        down = step_size_up if step_size_down is None else step_size_down
        if down < 0:
            raise self._mistake(f"step_size_down={down}", "a number >= 0")
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self.scale_mode = scale_mode if scale_fn is not None else _SCALES[mode]
        self._scale_fn_custom = scale_fn
        lowest = self._per_group("base_lr", base_lr)
        self.max_lrs = self._per_group("max_lr", max_lr)
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                group["lr"] = group["initial_lr"] = rate
        if cycle_momentum:
            self._begin_momenta(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def _join(self, group: Group) -> None:
        if len(self.base_lrs) >= len(self.max_lrs):
            raise self._late("the groups that the schedule was made with")

    def get_lr(self) -> list[float]:
        share = self._share()
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                low, top = group["base_momentum"], group["max_momentum"]
                set_momentum(group, top - (top - low) * share)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (top - low) * share for low, top in bounds]

    def _share(self) -> float:
        """How far up the rate is."""
        triangles = self.last_epoch / self.total_size
        number = math.floor(1 + triangles)
        x = 1 + triangles - number
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(number if self.scale_mode == "cycle" else self.last_epoch)
        return height * scale

    def scale_fn(self, x: float) -> float:
        """The share of the height, by the number of the triangle or of the step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1.0 if self.mode == "triangular" else 2.0 ** (1 - x)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_scale_fn_custom": kept_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        function = self._scale_fn_custom
        super().load_state_dict(state_dict)
        self._scale_fn_custom = function
        restore(function, state_dict["_scale_fn_custom"])
