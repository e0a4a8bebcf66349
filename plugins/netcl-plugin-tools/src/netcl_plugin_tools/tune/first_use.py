"""The namespace `tuning`: the records that the core asks for, and what measures on first use."""

from __future__ import annotations

import threading
import time
from typing import Final, final

from netcl_core import config
from netcl_core.inspect.choices import Offered, Place
from netcl_core.inspect.streams import own_stream, stream_of
from netcl_plugin_tools.tune.records import recorded
from netcl_plugin_tools.tune.trials import TuningTrial

__all__ = ["FirstUse", "first_use", "recorded"]


@final
class FirstUse:
    """Measures what has no record within a budget.

    Not while work is being captured or watched, nor under a running test: what these see is the
    program's own work alone.
    """

    def __init__(self) -> None:
        self._spent = 0.0
        self._tried: set[Place] = set()
        self._busy = threading.Lock()

    def __call__(self, offered: Offered) -> bool:
        device = offered.call.device
        if config.under_test() or stream_of(device) is not own_stream(device):
            return False
        if not self._busy.acquire(blocking=False):  # two at once would time each other
            return False
        try:
            self._measure(offered)
        finally:
            self._busy.release()
        return True

    def _measure(self, offered: Offered) -> None:
        left = config.get("tuning-budget-s") - self._spent
        if left <= 0 or offered.place in self._tried or offered.call.device.simulator:
            return
        self._tried.add(offered.place)
        start = time.perf_counter()
        trial = TuningTrial(offered)
        trial.measure(left)
        self._spent += time.perf_counter() - start
        trial.record()
        if trial.interrupted:
            raise KeyboardInterrupt


first_use: Final = FirstUse()
