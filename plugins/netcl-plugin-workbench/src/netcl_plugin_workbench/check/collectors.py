"""pytest's nodes for `--netcl-level static` and `full`: a test per check of a plugin."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, final

import pytest

from netcl_core.testing.collectors import FilelessItem
from netcl_core.testing.records import CheckRecord, Level, Outcome
from netcl_core.testing.suite import report
from netcl_plugin_workbench.check import checking


def collector_of(
    session: pytest.Session, provider: str, level: Level, devices: Sequence[str]
) -> CheckCollector:
    """The tests of a distribution; raises ArgumentError for what makes no sense together."""
    checking.insist(level, devices, ())
    made: CheckCollector = CheckCollector.from_parent(session, name=provider, nodeid=provider)
    made.level, made.devices = level, devices
    return made


@final
class CheckCollector(pytest.Collector):
    """What `netcl plugins check` finds of a plugin."""

    level: Level
    devices: Sequence[str]

    @cached_property
    def record(self) -> CheckRecord:
        """The record, made when the first test asks for it."""
        return checking.check(self.name, self.level, self.devices)

    def collect(self) -> list[Any]:
        """Its tests."""
        return [CheckItem.from_parent(self, name=each) for each in checking.checks_of(self.level)]


@final
class CheckItem(FilelessItem):
    """One check, such as that of the manifest."""

    def runtest(self) -> None:
        """End as the check of this name did."""
        assert isinstance(self.parent, CheckCollector)
        found: list[Outcome] = [
            each for each in self.parent.record.outcomes if each.check == self.name
        ]
        report(found)
        if not found:
            pytest.skip("it has nothing that this check looks at")
