"""Which settings the parts get that an op is made of: it is run once, and they are noted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from netcl_core import Device, use_device
from netcl_core.autograd import Operator
from netcl_core.inspect.choices import ChosenSettings, Offered, tuning_by
from netcl_core.plugins.protocol import registry
from netcl_plugin_kit.testing.op_runs import has_space, run_op


@final
class _Noted:
    """A tuner that measures nothing; `lines` says what was decided for each call."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def wants(self, decision: ChosenSettings) -> bool:
        """All of them."""
        return True

    def __call__(self, offered: Offered) -> bool:
        call = offered.call
        own = call.implementation
        found = [f"settings of {own.operator}, {own.label}: {call.decided}"]
        found += [f"ignored: {reason}" for reason in call.decided.ignored]
        self.lines += [line for line in found if line not in self.lines]
        return True


def settings_of_parts(
    op: str, device: Device, shapes: str, dtype: str, attrs: Mapping[str, Any]
) -> tuple[str, ...]:
    """A line for each part with settings that the op and its gradients use for these shapes.

    None for an op that is no function of others, or whose parts have no settings.
    """
    row = registry.find_op(op)
    record = None if row is None else row.record
    if not isinstance(record, Operator) or record.function is None or not has_space(record):
        return ()
    noted = _Noted()
    with use_device(device), tuning_by(noted):
        run_op("plugins why", op, shapes, dtype, attrs)
    return tuple(noted.lines)
