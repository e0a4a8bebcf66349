"""pytest's nodes for plugins that are checked without a test file, by `--netcl-plugin`.

At the level run a test per case and device, at the others one per check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import pytest

from netcl_core import get_device
from netcl_core.errors import NetclError
from netcl_plugin_kit.check import checking
from netcl_plugin_kit.testing.collection import table_of
from netcl_plugin_kit.testing.devices import usable_devices
from netcl_plugin_kit.testing.records import CheckRecord, Level, Outcome
from netcl_plugin_kit.testing.suite import Item, items_of, report


def items(
    session: pytest.Session, name: str, level: Level, devices: Sequence[str]
) -> list[pytest.Item]:
    """The tests of an installed plugin; an empty list of devices means every one at hand.

    Raises:
        UsageError: the plugin is not installed or does not work, there is no such device, or
            the level makes no sense with devices.
    """
    try:
        node = _collector(session, name, level, devices)
    except NetclError as error:
        raise pytest.UsageError(str(error)) from error
    done = session.ihook.pytest_make_collect_report(collector=node)
    session.ihook.pytest_collectreport(report=done)  # so that the tests are counted
    items: list[pytest.Item] = done.result
    return items


def _collector(
    session: pytest.Session, name: str, level: Level, devices: Sequence[str]
) -> pytest.Collector:
    table = table_of(name)
    where = {"name": table.provider, "nodeid": table.provider}
    if level == "run":
        cases: CaseCollector = CaseCollector.from_parent(session, **where)
        places = [get_device(device) for device in devices] or usable_devices()
        cases.tests = items_of(table, places)
        return cases
    checking.insist(level, devices, ())
    collector: CheckCollector = CheckCollector.from_parent(session, **where)
    collector.level, collector.devices = level, devices
    return collector


@final
class CaseCollector(pytest.Collector):
    """A plugin at the level run: a test per case and device."""

    tests: Sequence[Item]

    def collect(self) -> Iterator[CaseItem]:
        """Its tests."""
        for test in self.tests:
            node: CaseItem = CaseItem.from_parent(self, name=test.name)
            node.test = test
            yield node


class FilelessItem(pytest.Item):
    """A test that lies in no file."""

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it is, for reports: it has no line."""
        return self.path, None, self.nodeid


@final
class CaseItem(FilelessItem):
    """Some steps of a plugin's table."""

    test: Item

    def runtest(self) -> None:
        """Run the steps."""
        self.test.check()


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
        return [CheckItem.from_parent(self, name=check) for check in checking.checks_of(self.level)]


@final
class CheckItem(FilelessItem):
    """One check, such as that of the manifest."""

    def runtest(self) -> None:
        """End as the check of this name did."""
        assert isinstance(self.parent, CheckCollector)
        outcomes: list[Outcome] = [
            outcome for outcome in self.parent.record.outcomes if outcome.check == self.name
        ]
        report(outcomes)
        if not outcomes:
            pytest.skip("it has nothing that this check looks at")
