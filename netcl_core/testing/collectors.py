"""pytest's nodes for plugins that are checked without a test file, by `--netcl-plugin`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import final

import pytest

from netcl_core.device.device_table import get_device
from netcl_core.errors import NetclError, PluginError, message
from netcl_core.plugins.catalogue import how_to_get
from netcl_core.testing.collection import table_of
from netcl_core.testing.records import Level
from netcl_core.testing.reference import usable_devices
from netcl_core.testing.suite import Item, items_of


def collect(
    session: pytest.Session, name: str, level: Level, devices: Sequence[str]
) -> list[pytest.Item]:
    """The tests of an installed plugin; an empty list of devices means every one at hand.

    Raises:
        UsageError: the plugin is not installed or does not work, there is no such device, or
            the level cannot be checked.
    """
    try:
        node = _collector(session, name, level, devices)
    except NetclError as error:
        raise pytest.UsageError(str(error)) from error
    done = session.ihook.pytest_make_collect_report(collector=node)
    session.ihook.pytest_collectreport(report=done)  # so that the tests are counted
    found: list[pytest.Item] = done.result
    return found


def _collector(
    session: pytest.Session, name: str, level: Level, devices: Sequence[str]
) -> pytest.Collector:
    table = table_of(name)
    where = {"name": table.provider, "nodeid": table.provider}
    if level == "run":
        cases: CaseCollector = CaseCollector.from_parent(session, **where)
        places = [get_device(each) for each in devices] or usable_devices()
        cases.tests = items_of(table, places, thorough=True)
        return cases
    found: list[pytest.Collector] = session.ihook.pytest_netcl_collector(
        session=session, provider=table.provider, level=level, devices=devices
    )
    if not found:
        given = "nothing that is installed checks at this level"
        remedy = how_to_get("plugins check", "command") or ""
        raise PluginError(message(f"--netcl-level {level}", given, "", remedy))
    return found[0]


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
