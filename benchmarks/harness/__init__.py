"""Benchmarks: the same work by us and by others, checked, then timed in turn; and its records.

What a file of cases needs is here; docs/benchmarks.md shows one.
"""

from __future__ import annotations

from harness.cases import RaceCase, RaceLimit, RaceWork
from harness.functions import function_cases, op_cases
from harness.limits import copying, multiplying
from harness.models import model_case
from harness.training import Training, training_case

__all__ = [
    "RaceCase",
    "RaceLimit",
    "Training",
    "RaceWork",
    "copying",
    "function_cases",
    "model_case",
    "multiplying",
    "op_cases",
    "training_case",
]
