"""OneCycleLR: the rate rises and falls once over a whole training, the momentum against it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from netcl_plugin_optim.cycled import Cycled, set_momentum
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import SavedAttribute

#: A stretch up to `end_step`: the settings of a group between which rate and momentum go,
#: laid out as in PyTorch's states.
_Phase: TypeAlias = dict[str, Any]


class OneCycleLR(Cycled):
    """One cycle (Smith, Topin 2018, arXiv:1708.07120); `step()` after each batch.

    The rate rises from `max_lr / div_factor` to `max_lr` and falls to the first rate over
    `final_div_factor`.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=11)
    >>> rates = schedule.get_last_lr()
    >>> for _ in range(10):
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> [round(rate, 2) for rate in rates]
    [0.04, 0.42, 0.96, 0.98, 0.88, 0.73, 0.53, 0.33, 0.16, 0.04, 0.0]

    Args:
        max_lr: The highest rate, or one per group.
        total_steps: The number of steps of the cycle; or `epochs` and `steps_per_epoch`.
        pct_start: The share of the steps in which the rate rises.
        anneal_strategy: 'cos' or 'linear'.
        cycle_momentum: Whether the momentum (Adam: the first beta) falls from
            `max_momentum` to `base_momentum` while the rate rises, and back.
        three_phase: Whether the rate falls to the first one as it rose, and only then on.

    Raises:
        AttributeValueError: settings that do not fit each other; too many steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        SavedAttribute.__init__(self, optimizer)
        self.total_steps = self._steps(total_steps, epochs, steps_per_epoch)
        if anneal_strategy not in ("cos", "linear"):
            raise self._mistake(f"anneal_strategy={anneal_strategy!r}", "'cos' or 'linear'")
        if not 0 <= pct_start <= 1:
            raise self._mistake(f"pct_start={pct_start}", "0 to 1")
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self._schedule_phases = _phases(pct_start * self.total_steps, self.total_steps, three_phase)
        if last_epoch == -1:
            self._set_rates(max_lr, div_factor, final_div_factor)
        if cycle_momentum:
            self._begin_momenta(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _set_rates(self, max_lr: Any, div_factor: float, final_div_factor: float) -> None:
        rates = self._per_group("max_lr", max_lr)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["max_lr"] = rate
            group["initial_lr"] = rate / div_factor
            group["min_lr"] = group["initial_lr"] / final_div_factor

    def _steps(self, total: int | None, epochs: int | None, per_epoch: int | None) -> int:
        if total is None and epochs is not None and per_epoch is not None:
            total = epochs * per_epoch
        if not isinstance(total, int) or total <= 0:
            given = f"total_steps={total}, epochs={epochs}, steps_per_epoch={per_epoch}"
            raise self._mistake(given, "total_steps, or both of the others, above 0")
        return total

    def _join(self, group: Group) -> None:
        if "max_lr" not in group:
            raise self._late("max_lr, initial_lr and min_lr in it")

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise self._mistake(f"{self.last_epoch} steps", f"at most {self.total_steps}")
        rates = []
        for group in self.optimizer.param_groups:
            phase, share = self._place()
            rates.append(self._between(group, phase, "lr", share))
            if self.cycle_momentum:
                set_momentum(group, self._between(group, phase, "momentum", share))
        return rates

    def _place(self) -> tuple[_Phase, float]:
        """The phase of this step, and how much of it has passed."""
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if self.last_epoch <= end:
                break
            start = end if phase is not self._schedule_phases[-1] else start
        return phase, (self.last_epoch - start) / (end - start)

    def _between(self, group: Group, phase: _Phase, what: str, share: float) -> float:
        start = float(group[phase[f"start_{what}"]])
        end = float(group[phase[f"end_{what}"]])
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _phases(rise: float, total: int, three: bool) -> list[_Phase]:
    rising = ("max_momentum", "base_momentum")
    falling = ("base_momentum", "max_momentum")
    up = _phase(rise - 1, ("initial_lr", "max_lr"), rising)
    if not three:
        return [up, _phase(total - 1, ("max_lr", "min_lr"), falling)]
    down = _phase(2 * rise - 2, ("max_lr", "initial_lr"), falling)
    return [up, down, _phase(total - 1, ("initial_lr", "min_lr"), ("max_momentum",) * 2)]


def _phase(end: float, rates: Sequence[str], momenta: Sequence[str]) -> _Phase:
    return {
        "end_step": end,
        "start_lr": rates[0],
        "end_lr": rates[1],
        "start_momentum": momenta[0],
        "end_momentum": momenta[1],
    }
