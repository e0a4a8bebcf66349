"""Learning rates that follow a rule: the base, and StepLR, CosineAnnealingLR, LinearLR."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from netcl_core import on_replay
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.slabs import OptimizerStateError


class Saved:
    """An optimizer's companion whose attributes, but for the optimizer, are its state."""

    optimizer: Optimizer
    last_epoch: int
    _last_lr: list[float]

    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            given = f"a {type(optimizer).__name__}"
            raise ArgumentError(message(type(self).__name__, given, "an optimizer"))
        self.optimizer = optimizer

    def _now(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _per_group(self, name: str, value: Any) -> list[float]:
        """One number per group, from one number or a list."""
        count = len(self.optimizer.param_groups)
        if not isinstance(value, (list, tuple)):
            return [float(value)] * count
        if len(value) != count:
            given = f"{len(value)} values of {name}"
            raise AttributeValueError(
                message(type(self).__name__, given, f"{count}, one per group")
            )
        return [float(each) for each in value]

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group that was set last."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule needs to go on, laid out as PyTorch's."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, PyTorch's too; the optimizer's is loaded on its own.

        Raises OptimizerStateError if one of the attributes is missing, and then changes nothing.
        """
        missing = [name for name in self.state_dict() if name not in state]
        if missing:
            who, given = f"{type(self).__name__}.load_state_dict", f"no {', '.join(missing)}"
            raise OptimizerStateError(message(who, given, "the state of such a schedule"))
        for name in self.state_dict():
            setattr(self, name, state[name])


class LRScheduler(Saved, ABC):
    """Sets the learning rates of an optimizer's groups: at once, and at each `step()`.

    Call `step()` after the optimizer's, once per epoch or batch, as the schedule counts.
    The new rate follows from the present one, so that schedules can be combined, and
    from `initial_lr`, which each group keeps from its first schedule. `last_epoch` counts
    the steps; one that is not -1 goes on from there.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        super().__init__(optimizer)
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                given = f"last_epoch={last_epoch} and groups without initial_lr"
                remedy = "Load the optimizer's state before, or leave last_epoch at -1"
                raise ArgumentError(message(type(self).__name__, given, "initial_lr", remedy))
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr = self._now()
        self._advance(first=True)

    @abstractmethod
    def _rates(self, first: bool) -> list[float]:
        """The rate of each group at `last_epoch`; `first`: when the schedule is made."""

    def step(self) -> None:
        """Go on by one; inside a capture, at each replay too."""
        self._advance(first=False)
        on_replay(self.step)

    def _advance(self, first: bool) -> None:
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self._rates(first), strict=True):
            group["lr"] = rate
        self._last_lr = self._now()


class StepLR(LRScheduler):
    """The rate times `gamma` after every `step_size` steps."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        _positive("StepLR", "step_size", step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rates(self, first: bool) -> list[float]:
        due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if due else rate for rate in self._now()]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_max` steps, then back and so on.

    (Loshchilov, Hutter 2017, arXiv:1608.03983; without restarts)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        _positive("CosineAnnealingLR", "T_max", T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _rates(self, first: bool) -> list[float]:
        if first:
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


class LinearLR(LRScheduler):
    """A factor on the rate that goes evenly from one number to another in `total_iters` steps."""

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

    def _rates(self, first: bool) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._now()]
        if first or self.last_epoch > self.total_iters:
            return self._now()
        span = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * span
        return [rate * (1 + span / before) for rate in self._now()]


def _positive(who: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise AttributeValueError(message(who, f"{name}={value!r}", "a number above 0"))
