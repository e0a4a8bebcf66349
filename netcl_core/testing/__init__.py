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
    from netcl_core.testing.cases import Case
    from netcl_core.testing.checks import check_values
    from netcl_core.testing.collection import Table, table_of
    from netcl_core.testing.records import CheckRecord
    from netcl_core.testing.reference import TOLERANCE, usable_devices
    from netcl_core.testing.running import RunResult, run_level
    from netcl_core.testing.samples import (
        FLOATS,
        INTEGERS,
        MILD,
        SPECIAL,
        indices,
        masks,
        normal,
        uniform,
        whole,
    )
    from netcl_core.testing.scenarios import Scenario

#: name -> module
_NAMES: Final = {
    "Case": "cases",
    "Scenario": "scenarios",
    "Table": "collection",
    "table_of": "collection",
    "CheckRecord": "records",
    "RunResult": "running",
    "run_level": "running",
    "check_values": "checks",
    "usable_devices": "reference",
    "normal": "samples",
    "uniform": "samples",
    "whole": "samples",
    "indices": "samples",
    "masks": "samples",
    "FLOATS": "samples",
    "INTEGERS": "samples",
    "MILD": "samples",
    "SPECIAL": "samples",
    "TOLERANCE": "reference",
}

__all__ = [
    "Case",
    "Scenario",
    "Table",
    "table_of",
    "CheckRecord",
    "RunResult",
    "run_level",
    "check_values",
    "usable_devices",
    "normal",
    "uniform",
    "whole",
    "indices",
    "masks",
    "FLOATS",
    "INTEGERS",
    "MILD",
    "SPECIAL",
    "TOLERANCE",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'netcl_core.testing' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"netcl_core.testing.{_NAMES[name]}"), name)
    globals()[name] = found
    return found
