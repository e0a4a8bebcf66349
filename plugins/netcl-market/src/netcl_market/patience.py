"""Measures how long a child process has been silent, without the time it waited for a processor.

On a busy machine a child may get a tenth of a core. By the wall clock it would be ended as one that
hangs, while all that it lacks is its turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, final

#: Seconds between two looks at the processes of a child.
_EVERY: Final = 0.5
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@final
class Patience:
    """How much silence of a process, and of all that it started, is left.

    A second counts as one in which the processes computed, or all of them slept. Where the system
    does not tell (it has no `/proc`), every second counts.

    Args:
        pid: The child.
        seconds: The silence after which it is `over`.

    >>> patience = Patience(child.pid, 120.0)
    >>> while not patience.over():
    ...     if news():
    ...         patience.renew()
    """

    def __init__(self, pid: int, seconds: float) -> None:
        self._pid, self._seconds = pid, seconds
        self._silent = 0.0
        #: When it was looked at last, and the seconds that it had computed by then.
        self._seen = (time.monotonic(), 0.0)

    def renew(self) -> None:
        """Begin anew: the child has said something."""
        self._silent = 0.0

    def over(self) -> bool:
        """Whether it has been silent for too long; to be asked often."""
        now, (before, computed) = time.monotonic(), self._seen
        passed = now - before
        if passed >= min(_EVERY, self._seconds):
            used, waiting = _state_of(self._pid)
            # A process that ends takes its time along, so what is used may seem to fall.
            self._silent += min(passed, max(used - computed, 0.0)) if waiting else passed
            self._seen = (now, used)
        return self._silent >= self._seconds


def _state_of(pid: int) -> tuple[float, bool]:
    """Seconds that a process and its descendants have computed; whether one wants to compute."""
    used, waiting = 0, False
    for process in _tree(pid):
        with suppress(OSError, ValueError, IndexError):
            fields = _fields(process / "stat")
            used += sum(map(int, fields[11:15]))
            waiting = waiting or any(
                _fields(thread / "stat")[0] == "R" for thread in (process / "task").iterdir()
            )
    return used / _TICKS, waiting


def _fields(stat: Path) -> list[str]:
    """The fields of a `stat` file from the state on; the name before it may hold anything."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _tree(pid: int) -> Iterator[Path]:
    pids = [pid]
    while pids:
        process = Path("/proc", str(pids.pop()))
        yield process
        with suppress(OSError):
            for thread in (process / "task").iterdir():
                pids += map(int, (thread / "children").read_text(encoding="ascii").split())
