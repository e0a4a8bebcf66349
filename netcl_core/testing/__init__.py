"""Checks for ops: values and gradients against float64, on every device at hand.

A plugin's hook returns the cases of an op, and its test file is one line and its import:

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case("gated", (normal(), normal()), lambda t, x, y: ...)]

    from netcl_core.testing.suite import conformance  # it imports pytest

    TestConformance = conformance("my-plugin")

Importing this package imports nothing: each name comes from its module on first use, so that
pytest, which finds `netcl_core.testing.plugin` by itself, starts as fast as without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from netcl_core.testing.cases import Case as Case
    from netcl_core.testing.checks import check_values as check_values
    from netcl_core.testing.collection import Table as Table
    from netcl_core.testing.collection import table_of as table_of
    from netcl_core.testing.records import CheckRecord as CheckRecord
    from netcl_core.testing.reference import TOLERANCE as TOLERANCE
    from netcl_core.testing.reference import usable_devices as usable_devices
    from netcl_core.testing.running import RunResult as RunResult
    from netcl_core.testing.running import run_level as run_level
    from netcl_core.testing.samples import FLOATS as FLOATS
    from netcl_core.testing.samples import INTEGERS as INTEGERS
    from netcl_core.testing.samples import MILD as MILD
    from netcl_core.testing.samples import SPECIAL as SPECIAL
    from netcl_core.testing.samples import indices as indices
    from netcl_core.testing.samples import masks as masks
    from netcl_core.testing.samples import normal as normal
    from netcl_core.testing.samples import uniform as uniform
    from netcl_core.testing.samples import whole as whole
    from netcl_core.testing.scenarios import Scenario as Scenario

#: module -> its names
_MODULES: Final = {
    "cases": "Case",
    "scenarios": "Scenario",
    "collection": "Table table_of",
    "records": "CheckRecord",
    "running": "RunResult run_level",
    "checks": "check_values",
    "reference": "TOLERANCE usable_devices",
    "samples": "normal uniform whole indices masks FLOATS INTEGERS MILD SPECIAL",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'netcl_core.testing' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"netcl_core.testing.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
