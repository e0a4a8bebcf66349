"""Schedules by cosines: CosineAnnealingLR and CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
from functools import partial
from typing import final

from netcl_core import on_replay
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import LRScheduler, positive


@final
class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_max` steps, then back and so on.

    (Loshchilov, Hutter 2017, arXiv:1608.03983; without restarts)

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> round(schedule.get_last_lr()[0], 6)
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        positive("CosineAnnealingLR", "T_max", T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._now()
        pairs = zip(self.base_lrs, self._now(), strict=True)
        return [self._next(base, rate) for base, rate in pairs]

    def _next(self, base: float, rate: float) -> float:
        """The rate that follows on the cosine."""
        low, epoch, period = self.eta_min, self.last_epoch, self.T_max
        if (epoch - 1 - period) % (2 * period) == 0:  # the last rate was the lowest
            return rate + (base - low) * (1 - math.cos(math.pi / period)) / 2
        now, before = (1 + math.cos(math.pi * k / period) for k in (epoch, epoch - 1))
        return now / before * (rate - low) + low


@final
class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_0` steps, and then from the top again.

    (Loshchilov, Hutter 2017, arXiv:1608.03983) Each half takes `T_mult` times as many steps as the
    one before.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> [round(rate, 6) for rate in rates]
    [0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's name
        T_mult: int = 1,  # noqa: N803 - the same
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                given, expected = f"{name}={value!r}", "a whole number of at least 1"
                raise AttributeValueError(message("CosineAnnealingWarmRestarts", given, expected))
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on by one, or to an epoch, which may lie between two: `step(epoch + i / batches)`."""
        if epoch is None:
            self._go_on()
        elif epoch < 0:
            expected = "an epoch of at least 0"
            raise AttributeValueError(
                message("CosineAnnealingWarmRestarts.step", f"epoch={epoch}", expected)
            )
        else:
            self._go_to(epoch)
        on_replay(partial(self.step, epoch))

    def _go_on(self) -> None:
        if self.last_epoch < 0:
            self._go_to(0)
            return
        self.T_cur += 1
        if self.T_cur >= self.T_i:
            self.T_cur %= self.T_i
            self.T_i *= self.T_mult
        self._follow_groups()
        self.last_epoch += 1
        self._set(self.get_lr())

    def _go_to(self, epoch: float) -> None:
        self._follow_groups()
        self.last_epoch = math.floor(epoch)
        halves = int(epoch // self.T_0)
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch - halves * self.T_0
        else:
            halves = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begun = self.T_0 * (self.T_mult**halves - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - begun, self.T_0 * self.T_mult**halves
        self._set(self.get_lr())
