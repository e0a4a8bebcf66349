"""Schedules by factors: StepLR, MultiStepLR, ExponentialLR, ConstantLR, LinearLR, PolynomialLR."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import final

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import LRScheduler, positive


@final
class StepLR(LRScheduler):
    """The rate times `gamma` after every `step_size` steps.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        positive("StepLR", "step_size", step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if due else rate for rate in self._now()]


@final
class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the steps in `milestones`.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        times = self.milestones[self.last_epoch]
        return [rate * self.gamma**times for rate in self._now()]


@final
class ExponentialLR(LRScheduler):
    """The rate times `gamma` at each step.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [rate if self._is_initial else rate * self.gamma for rate in self._now()]


@final
class ConstantLR(LRScheduler):
    """A factor on the rate for the first `total_iters` steps.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> before = schedule.get_last_lr()
    >>> for _ in range(2):
    ...     schedule.step()
    >>> before, schedule.get_last_lr()
    ([0.5], [1.0])
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < factor <= 1:
            raise AttributeValueError(
                message("ConstantLR", f"factor={factor}", "above 0, at most 1")
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._now()]
        back = 1 / self.factor if self.last_epoch == self.total_iters else 1
        return [rate * back for rate in self._now()]


@final
class LinearLR(LRScheduler):
    """A factor on the rate that goes evenly from one number to another in `total_iters` steps.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.75]

    Args:
        end_factor: The factor of the rate at the end.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            given = f"start_factor={start_factor}"
            raise AttributeValueError(message("LinearLR", given, "above 0, at most 1"))
        if not 0 <= end_factor <= 1:
            raise AttributeValueError(message("LinearLR", f"end_factor={end_factor}", "0 to 1"))
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._now()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._now()
        span = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * span
        return [rate * (1 + span / before) for rate in self._now()]


@final
class PolynomialLR(LRScheduler):
    """The rate times `(1 - t / total_iters) ** power` in step t, and 0 from `total_iters` on.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        positive("PolynomialLR", "total_iters", total_iters)
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, total = self.last_epoch, self.total_iters
        if self._is_initial or epoch > total:
            return self._now()
        factor = ((1 - epoch / total) / (1 - (epoch - 1) / total)) ** self.power
        return [rate * factor for rate in self._now()]
