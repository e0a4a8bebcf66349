"""What schedules of learning rates have in common: their state, their groups, their steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from netcl_core import on_replay
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.slabs import OptimizerStateError

#: Attributes of a schedule that are no state of it.
_NO_STATE: Final = ("optimizer", "_is_initial", "_schedulers", "lr_lambdas", "_of_all")


class SavedAttribute:
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
        return [float(item) for item in value]

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group that was set last."""
        return list(self._last_lr)

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule needs to go on, laid out as PyTorch's."""
        return {name: value for name, value in vars(self).items() if name not in _NO_STATE}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state, PyTorch's too; the optimizer's is loaded on its own.

        Raises OptimizerStateError if one of the attributes is missing, and then changes nothing.
        """
        missing = [name for name in self.state_dict() if name not in state_dict]
        if missing:
            who, given = f"{type(self).__name__}.load_state_dict", f"no {', '.join(missing)}"
            raise OptimizerStateError(message(who, given, "the state of such a schedule"))
        for name in SavedAttribute.state_dict(self):
            setattr(self, name, state_dict[name])


class LRScheduler(SavedAttribute):
    """Sets the learning rates of an optimizer's groups: at once, and at each `step()`.

    Call `step()` after the optimizer's, once per epoch or batch, as the schedule counts.
    The new rate follows from the present one, so that schedules can be combined, and
    from `initial_lr`, which each group keeps from its first schedule. `last_epoch` counts
    the steps; one that is not -1 goes on from there. A group that the optimizer takes on
    later begins with its own rate.

    A schedule of your own says in `get_lr` what follows:

    >>> class Halving(optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [base / 2**self.last_epoch for base in self.base_lrs]
    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = Halving(optimizer)
    >>> for _ in range(2):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    #: Whether the rates are asked for the first time, when the schedule is made.
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        super().__init__(optimizer)
        if last_epoch != -1 and any("initial_lr" not in g for g in optimizer.param_groups):
            given = f"last_epoch={last_epoch} and groups without initial_lr"
            remedy = "Load the optimizer's state before, or leave last_epoch at -1"
            raise ArgumentError(message(type(self).__name__, given, "initial_lr", remedy))
        self.base_lrs: list[float] = []
        self.last_epoch = last_epoch
        self._begin()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, which the step has counted up already."""
        given = f"{type(self).__name__} has no get_lr"
        remedy = "Write `def get_lr(self)`, or take a schedule of optim.lr_scheduler"
        raise NotImplementedError(message("LRScheduler", given, "one of its own", remedy))

    def step(self) -> None:
        """Go on by one; inside a capture, at each replay too."""
        self._go_on()
        on_replay(self.step)

    def _begin(self) -> None:
        """The first step, when the schedule is made."""
        self._is_initial = True
        try:
            self._go_on()
        finally:
            self._is_initial = False

    def _undo(self) -> None:
        """Forget that the schedule has begun."""
        self.last_epoch -= 1

    def _restart(self) -> None:
        """Begin anew, from the groups' first rates."""
        self._follow_groups()
        for group, rate in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = rate
        self.last_epoch = -1
        self._begin()

    def _go_on(self) -> None:
        self._follow_groups()
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._now()

    def _follow_groups(self) -> None:
        """Take note of groups that are new."""
        for group in self.optimizer.param_groups[len(self.base_lrs) :]:
            self._join(group)
            self.base_lrs.append(group["initial_lr"])

    def _join(self, group: Group) -> None:
        group.setdefault("initial_lr", group["lr"])


def positive(who: str, name: str, value: Any) -> None:
    """Raise AttributeValueError unless a setting is a number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
        raise AttributeValueError(message(who, f"{name}={value!r}", "a number above 0"))
