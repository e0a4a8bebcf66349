"""pytest's plugin: `pytest --netcl-plugin NAME` checks an installed plugin without a test file.

pytest imports this module wherever netcl is installed, in everybody's runs. It imports nothing
and does nothing there unless the option is given.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_LEVELS = ("static", "run", "full")


class PytestHooks:
    """What another pytest plugin may bring: the levels that the kit itself does not have."""

    def pytest_netcl_collector(
        self, session: pytest.Session, provider: str, level: str, devices: Sequence[str]
    ) -> pytest.Collector | None:
        """The tests of a distribution at the level static or full."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hook."""
    pluginmanager.add_hookspecs(PytestHooks)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("netcl", "conformance of netcl plugins")
    group.addoption(
        "--netcl-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="Check the ops of an installed netcl plugin, by the name of its distribution or its "
        "own; may be repeated.",
    )
    group.addoption(
        "--netcl-level",
        choices=_LEVELS,
        default="run",
        help="How much is checked of each of them; default: run.",
    )
    group.addoption(
        "--netcl-device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="Where they are checked: 'opencl:<index>', 'opencl:<part of a name>' or 'cpu'; may be "
        "repeated; default: every device at hand.",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests of the plugins that the options name."""
    names = config.getoption("netcl_plugin")
    if not names:
        return
    collectors: Any = importlib.import_module("netcl_core.testing.collectors")
    level, devices = config.getoption("netcl_level"), config.getoption("netcl_device")
    for name in dict.fromkeys(names):
        items += collectors.collect(session, name, level, devices)
