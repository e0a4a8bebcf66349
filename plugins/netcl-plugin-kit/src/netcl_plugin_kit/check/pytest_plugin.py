"""pytest's plugin: the tests of `pytest --netcl-plugin NAME`.

pytest imports this module wherever the kit is installed, in everybody's runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import pytest


@pytest.hookimpl(optionalhook=True)  # there is no such hook with `-p no:netcl`
def pytest_netcl_items(
    session: pytest.Session, name: str, level: str, devices: Sequence[str]
) -> list[pytest.Item]:
    """The tests of an installed plugin."""
    collectors = importlib.import_module("netcl_plugin_kit.check.collectors")
    made: list[pytest.Item] = collectors.items(session, name, level, devices)
    return made
