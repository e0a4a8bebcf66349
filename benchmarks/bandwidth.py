"""What the scripts here time by that are no items of `python benchmarks`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

RUNS, CALLS = 9, 10


def best(call: Callable[[], Any], finish: Callable[[], Any]) -> float:
    """Milliseconds per call, the best of several runs of several calls."""
    for _ in range(3):
        call()
    finish()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        finish()
        times.append((time.perf_counter() - start) / CALLS * 1e3)
    return min(times)
