"""Cycled: schedules in which the momentum goes against the rate."""

from __future__ import annotations

from typing import Any

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.schedules import LRScheduler


class Cycled(LRScheduler):
    """A schedule between bounds, which each group has from the beginning."""

    def _begin_momenta(self, base: Any, highest: Any, last_epoch: int) -> None:
        """Note the bounds of the groups' momenta in the groups, unless the schedule goes on from
        there, and begin with the highest.
        """
        if not {"momentum", "betas"} & set(self.optimizer.defaults):
            given = "an optimizer without momentum or betas"
            raise self._mistake(given, "cycle_momentum=False")
        lows = self._per_group("base_momentum", base)
        tops = self._per_group("max_momentum", highest)
        for group, low, top in zip(self.optimizer.param_groups, lows, tops, strict=True):
            if last_epoch == -1 or "max_momentum" not in group:
                group["base_momentum"], group["max_momentum"] = low, top
                set_momentum(group, top)

    def _late(self, expected: str) -> AttributeValueError:
        return self._mistake("a group that the optimizer took on later", expected)

    def _mistake(self, given: str, expected: str) -> AttributeValueError:
        return AttributeValueError(message(type(self).__name__, given, expected))


def set_momentum(group: Group, value: float) -> None:
    """Set a group's momentum, or the first of its betas."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
