"""Schedules of schedules: SequentialLR and ChainedScheduler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, final

from netcl_core.errors import ArgumentError, message
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.plateau import ReduceLROnPlateau
from netcl_plugin_optim.schedules import LRScheduler, SavedAttribute


class _Combined(LRScheduler):
    """Several schedules of one optimizer, whose states are in its own."""

    _schedulers: list[LRScheduler]

    def __init__(self, optimizer: Any, schedulers: Sequence[Any]) -> None:
        SavedAttribute.__init__(self, optimizer)
        who = type(self).__name__
        if not schedulers:
            raise ArgumentError(message(who, "no schedulers", "at least one"))
        for scheduler in schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                remedy = "Step it beside the others"
                expected = "schedules whose step takes nothing"
                raise ArgumentError(message(who, "a ReduceLROnPlateau", expected, remedy))
            if not isinstance(scheduler, LRScheduler):
                raise ArgumentError(message(who, f"a {type(scheduler).__name__}", "schedules"))
            if scheduler.optimizer is not optimizer:
                given = f"a {type(scheduler).__name__} of another optimizer"
                raise ArgumentError(message(who, given, "schedules of one optimizer"))
        self._schedulers = list(schedulers)

    def get_lr(self) -> list[float]:
        return self._now()

    def _undo(self) -> None:
        for scheduler in self._schedulers:
            scheduler._undo()

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


@final
class SequentialLR(_Combined):
    """One schedule after the other: `schedulers[i + 1]` begins in step `milestones[i]`.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> warm = optim.lr_scheduler.ConstantLR(optimizer, factor=0.125, total_iters=9)
    >>> fall = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], milestones=[2])
    >>> rates = schedule.get_last_lr()
    >>> for _ in range(4):
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [0.125, 0.125, 1.0, 0.5, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            given = f"{len(schedulers)} schedulers and {len(milestones)} milestones"
            raise ArgumentError(message("SequentialLR", given, "one milestone fewer"))
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._undo()
        self._first_begins()

    def _first_begins(self) -> None:
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def _begin(self) -> None:
        self.last_epoch = 0
        self._first_begins()

    def _restart(self) -> None:
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
        self.last_epoch = 0
        self._schedulers[bisect_right(self._milestones, 0)]._restart()
        self._last_lr = self._now()

    def _go_on(self) -> None:
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        now = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            now._restart()
        else:
            now._go_on()
        self._last_lr = now.get_last_lr()


@final
class ChainedScheduler(_Combined):
    """All schedules at once: each step is a step of all of them.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> warm = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> fall = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = optim.lr_scheduler.ChainedScheduler([warm, fall])
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]

    Args:
        schedulers: The schedules, all of one optimizer.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        first = schedulers[0] if schedulers else None
        super().__init__(optimizer or getattr(first, "optimizer", None), schedulers)
        self._last_lr = self._now()

    def _begin(self) -> None:
        for scheduler in self._schedulers:
            scheduler._begin()
        self._last_lr = self._now()

    def _restart(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            scheduler.last_epoch = -1
        self._begin()

    def _go_on(self) -> None:
        for scheduler in self._schedulers:
            scheduler._go_on()
        self._last_lr = self._now()
