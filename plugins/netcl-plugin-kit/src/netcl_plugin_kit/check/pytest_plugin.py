"""pytest's plugin: `pytest --netcl-plugin NAME` checks an installed plugin without a test file.

pytest imports this module wherever the kit is installed, in everybody's runs. It imports nothing
more and does nothing there unless the option is given.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

_LEVELS: Final = ("static", "run", "full")


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
        help="How much is checked of each of them; default: run. Given, `conformance` classes in "
        "test files check all that the level run checks, not a part of it.",
    )
    group.addoption(
        "--netcl-device",
        action="append",
        default=[],
        metavar="DEVICE",
        help="Where they are checked: 'opencl:<index>', 'opencl:<part of a name>' or 'numpy'; may "
        "be repeated; default: every device at hand, for `conformance` classes NumPy and one "
        "OpenCL device.",
    )


def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the tests of the plugins that the options name."""
    names = config.getoption("netcl_plugin")
    if not names:
        return
    collectors = importlib.import_module("netcl_plugin_kit.check.collectors")
    level, devices = config.getoption("netcl_level") or "run", config.getoption("netcl_device")
    for name in dict.fromkeys(names):
        items += collectors.items(session, name, level, devices)
