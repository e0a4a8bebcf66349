"""ReduceLROnPlateau: a lower rate when a metric has stopped to improve."""

from __future__ import annotations

from functools import partial
from typing import Any

from netcl_core import on_replay
from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import SavedAttribute


class ReduceLROnPlateau(SavedAttribute):
    """The rate times `factor` when a metric was no better for more than `patience` steps.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.5]

    Args:
        mode: 'min' or 'max': which way the metric improves.
        factor: Below 1.
        patience: How many steps without improvement are let pass.
        threshold: An improvement is a metric better than the best by this: a share of it
            with threshold_mode 'rel', the number itself with 'abs'.
        cooldown: Steps after a reduction that do not count.
        min_lr: The lowest rate, or one per group.
        eps: A reduction by less is not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: Any = 0.0,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(optimizer)
        self._check(mode, threshold_mode, factor)
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else float(min_lr)
        self.min_lrs = self._per_group("min_lr", min_lr)
        self.eps = eps
        self.best = float("inf") if mode == "min" else float("-inf")
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0
        self._last_lr = self._now()

    def _check(self, mode: str, threshold_mode: str, factor: float) -> None:
        who = "ReduceLROnPlateau"
        if mode not in ("min", "max"):
            raise AttributeValueError(message(who, f"mode={mode!r}", "'min' or 'max'"))
        if threshold_mode not in ("rel", "abs"):
            given = f"threshold_mode={threshold_mode!r}"
            raise AttributeValueError(message(who, given, "'rel' or 'abs'"))
        if not factor < 1:
            raise AttributeValueError(message(who, f"factor={factor}", "below 1"))

    def step(self, metrics: Any) -> None:
        """Take in a metric: a number, or a value of one element, which waits for the device."""
        current = float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._now()
        on_replay(partial(self.step, current))

    def _is_better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "abs":
            return sign * current > sign * self.best + self.threshold
        return sign * current > sign * self.best * (1 + sign * self.threshold)

    def _reduce(self) -> None:
        if len(self.min_lrs) != len(self.optimizer.param_groups):
            lowest = self.min_lrs if self.default_min_lr is None else self.default_min_lr
            self.min_lrs = self._per_group("min_lr", lowest)
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lower = max(group["lr"] * self.factor, lowest)
            if group["lr"] - lower > self.eps:
                group["lr"] = lower
