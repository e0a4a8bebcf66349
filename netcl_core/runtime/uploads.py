"""Host copies of data on their way to a device: each is freed when it has arrived.

A copy that does not wait reads the host's memory later, so that somebody must hold it
until then, and no longer.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, final

from netcl_core.hardware.device import opencl_module

#: Bytes on their way that may stay until the next upload or wait asks for them; above it a
#: thread waits for them.
_UNNOTICED: Final = 1 << 20
#: Bytes that may be on their way; beyond it an upload waits for those before it.
_MOST: Final = 256 << 20


@final
class Uploads:
    """The copies of one in-order queue that are under way, the oldest first."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._waiter: threading.Thread | None = None

    def add(self, event: Any, nbytes: int) -> None:
        """Hold the event of a copy, and with it the copied memory, until it is done."""
        with self._lock:
            self._pending.append((event, nbytes))
            self._bytes += nbytes
        self.drop_finished()
        ending = not threading.main_thread().is_alive()
        while self._bytes > (_UNNOTICED if ending else _MOST):
            self._wait_for_oldest()
        with self._lock:
            if self._bytes > _UNNOTICED and self._waiter is None:
                # No daemon: Python ends those inside a driver's function, which ends the process.
                self._waiter = threading.Thread(target=self._wait)
                self._waiter.start()

    def drop_finished(self) -> None:
        """Free what has arrived."""
        done = opencl_module().command_execution_status.COMPLETE
        with self._lock:
            while self._pending and self._pending[0][0].command_execution_status == done:
                self._forget(self._pending[0])

    def _wait(self) -> None:
        """What the thread does: wait for all, and end."""
        while self._wait_for_oldest():
            continue

    def _wait_for_oldest(self) -> bool:
        """False: there is none, and no thread waits for any."""
        with self._lock:
            if not self._pending:
                self._waiter = None
                return False
            oldest = self._pending[0]
        oldest[0].wait()
        with self._lock:
            self._forget(oldest)
        return True

    def _forget(self, upload: tuple[Any, int]) -> None:
        """Unless another thread has done so."""
        if self._pending and self._pending[0] is upload:
            self._pending.popleft()
            self._bytes -= upload[1]
