"""The conformance kit: the cases of an op, and what checks values and gradients against float64.

A plugin's hook returns the cases of an op, and its test file is one line and its import:

    @hookimpl
    def netcl_conformance_cases(self, op):
        return [Case("gated", (normal(), normal()), lambda t, x, y: ...)]

    from netcl_plugin_kit.testing import conformance

    TestConformance = conformance("my-plugin")

Importing this package imports nothing: each name comes from its module on first use. It is the
namespace `conformance` besides, by which the core finds what it needs of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from netcl_plugin_kit.testing.cases import Case as Case
    from netcl_plugin_kit.testing.checks import check_values as check_values
    from netcl_plugin_kit.testing.collection import Table as Table
    from netcl_plugin_kit.testing.collection import table_of as table_of
    from netcl_plugin_kit.testing.devices import usable_devices as usable_devices
    from netcl_plugin_kit.testing.records import CheckRecord as CheckRecord
    from netcl_plugin_kit.testing.reference import TOLERANCE as TOLERANCE
    from netcl_plugin_kit.testing.running import RunResult as RunResult
    from netcl_plugin_kit.testing.running import run_level as run_level
    from netcl_plugin_kit.testing.samples import FLOATS as FLOATS
    from netcl_plugin_kit.testing.samples import INTEGERS as INTEGERS
    from netcl_plugin_kit.testing.samples import MILD as MILD
    from netcl_plugin_kit.testing.samples import SPECIAL as SPECIAL
    from netcl_plugin_kit.testing.samples import indices as indices
    from netcl_plugin_kit.testing.samples import masks as masks
    from netcl_plugin_kit.testing.samples import normal as normal
    from netcl_plugin_kit.testing.samples import uniform as uniform
    from netcl_plugin_kit.testing.samples import whole as whole
    from netcl_plugin_kit.testing.scenarios import Scenario as Scenario
    from netcl_plugin_kit.testing.streams import recorded as recorded
    from netcl_plugin_kit.testing.suite import conformance as conformance
    from netcl_plugin_kit.testing.verification import refuse_wrong_gradient as refuse_wrong_gradient

#: module -> its names
_MODULES: Final = {
    "cases": "Case",
    "checks": "check_values",
    "collection": "Table table_of",
    "devices": "usable_devices",
    "records": "CheckRecord",
    "reference": "TOLERANCE",
    "running": "RunResult run_level",
    "samples": "normal uniform whole indices masks FLOATS INTEGERS MILD SPECIAL",
    "scenarios": "Scenario",
    "streams": "recorded",
    "suite": "conformance",
    "verification": "refuse_wrong_gradient",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_MODULE_OF]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_OF[name]}")
    return globals().setdefault(name, getattr(module, name))
