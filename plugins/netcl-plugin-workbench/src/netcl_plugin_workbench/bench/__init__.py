"""Benchmarks: the same work by us and by others, checked, then timed in turn; and its records.

What a file of cases needs is here; docs/benchmarks.md shows one.
"""

from __future__ import annotations

from netcl_plugin_workbench.bench.cases import Case, Limit, Work
from netcl_plugin_workbench.bench.functions import function_cases
from netcl_plugin_workbench.bench.limits import copying, multiplying
from netcl_plugin_workbench.bench.models import model_case
from netcl_plugin_workbench.bench.training import Training, training_case

__all__ = [
    "Case",
    "Limit",
    "Training",
    "Work",
    "copying",
    "function_cases",
    "model_case",
    "multiplying",
    "training_case",
]
