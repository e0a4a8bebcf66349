"""pytest's plugin: the levels static and full of `pytest --netcl-plugin NAME`.

pytest imports this module wherever the workbench is installed, in everybody's runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

import pytest


@pytest.hookimpl(optionalhook=True)  # there is no such hook with `-p no:netcl`
def pytest_netcl_collector(
    session: pytest.Session, provider: str, level: str, devices: Sequence[str]
) -> pytest.Collector:
    """The tests of a distribution at a level that the core's own kit does not have."""
    collectors = importlib.import_module("netcl_plugin_workbench.check.collectors")
    made: pytest.Collector = collectors.collector_of(session, provider, level, devices)
    return made
