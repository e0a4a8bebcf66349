"""Checks for ops: values and gradients against float64, on every device at hand.

A plugin's test file is a table and one line:

    CASES = [Case("swiglu", (normal(), normal()), lambda t, x, y: t.nn.functional.silu(x) * y)]
    TestConformance = conformance("my-plugin", CASES)

with `conformance` from `netcl_core.testing.suite`, which imports pytest.
"""

from __future__ import annotations

from netcl_core.testing.cases import Case
from netcl_core.testing.checks import check_case, check_gradient, check_values
from netcl_core.testing.records import Record
from netcl_core.testing.reference import TOLERANCE, usable_devices
from netcl_core.testing.results import Result, Table, run
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

__all__ = [
    "Case",
    "Table",
    "Record",
    "Result",
    "run",
    "check_case",
    "check_values",
    "check_gradient",
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
