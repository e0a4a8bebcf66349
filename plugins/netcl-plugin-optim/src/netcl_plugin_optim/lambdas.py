"""Schedules by functions: LambdaLR and MultiplicativeLR."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, TypeAlias, final

from netcl_core.errors import ArgumentError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Optimizer
from netcl_plugin_optim.schedules import LRScheduler

_Factor: TypeAlias = Callable[[int], float]


def kept_of(function: Any) -> dict[str, Any] | None:
    """What a state has of a function: the attributes, if it is an object with a `__call__`."""
    plain = function is None or isinstance(function, FunctionType)
    return None if plain else dict(vars(function))


def restore(function: Any, kept: Mapping[str, Any] | None) -> None:
    """Give a function what a state has of it."""
    if kept is not None:
        vars(function).update(kept)


class _ByFunctions(LRScheduler):
    """A function from the number of the step to a factor, or one for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: _Factor | list[_Factor], last_epoch: int = -1
    ) -> None:
        listed = isinstance(lr_lambda, (list, tuple))
        self._of_all = None if listed else lr_lambda
        self.lr_lambdas: list[Any] = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else []
        for function in [lr_lambda] if not listed else self.lr_lambdas:
            if not callable(function):
                given = f"a {type(function).__name__} as lr_lambda"
                raise ArgumentError(message(type(self).__name__, given, "a function of the step"))
        super().__init__(optimizer, last_epoch)
        if len(self.lr_lambdas) != len(self.optimizer.param_groups):
            raise self._uneven()

    def _join(self, group: Group) -> None:
        super()._join(group)
        if self._of_all is not None:
            self.lr_lambdas.append(self._of_all)
        elif len(self.lr_lambdas) <= len(self.base_lrs):
            raise self._uneven()

    def _uneven(self) -> ArgumentError:
        given = f"{len(self.lr_lambdas)} functions"
        expected = f"{len(self.optimizer.param_groups)}, one per group"
        return ArgumentError(message(type(self).__name__, given, expected))

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "lr_lambdas": [kept_of(function) for function in self.lr_lambdas],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for function, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            restore(function, kept)


@final
class LambdaLR(_ByFunctions):
    """The initial rate times what a function says of the number of the step.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]

    Args:
        lr_lambda: A function of the epoch that gives the factor, or a list of one for each group.
    """

    def get_lr(self) -> list[float]:
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * function(self.last_epoch) for base, function in pairs]


@final
class MultiplicativeLR(_ByFunctions):
    """At each step the rate times what a function says of the step's number.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]

    Args:
        lr_lambda: A function of the epoch that gives the factor, or a list of one for each group.
    """

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._now()
        pairs = zip(self._now(), self.lr_lambdas, strict=True)
        return [rate * function(self.last_epoch) for rate, function in pairs]

    def _restart(self) -> None:
        self.last_epoch = -1  # it goes on from the present rate
        self._go_on()
