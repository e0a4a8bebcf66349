"""Commands of a stream that wait for programs which other processes build.

The host goes on meanwhile, and meets the kernels that it needs next: they are built side by side.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Protocol, final

from netcl_core.errors import BuildError
from netcl_core.hardware.device import Device
from netcl_core.runtime.memory import DeviceMemory

#: So many commands wait before the host waits for them.
_MOST: Final = 1024
#: Of the device's memory this part may be taken meanwhile: they hold what they read and write.
_SHARE: Final = 32


class _Kernel(Protocol):
    """What a command may wait for."""

    def ahead(self, who: str) -> bool:
        """Whether others are building the program."""

    def build(self, who: str) -> Any:
        """The built program."""


@final
class Waiting:
    """The commands of a device's stream that wait, in their order.

    Attributes:
        late: Whether there are any: then each further command is one of them.
    """

    def __init__(self, device: Device, memory: DeviceMemory) -> None:
        self.late = False
        self._device = device
        self._held: deque[tuple[Callable[[], Any], _Kernel | None, str]] = deque()
        self._order = threading.RLock()
        self._running = 0
        self._memory = memory
        self._before = 0  # bytes in use when the first of them had to wait

    def takes(
        self, command: Callable[[], Any], kernel: _Kernel | None = None, who: str = ""
    ) -> bool:
        """Whether a command has to wait, for its own program or an earlier command's."""
        if self._running == get_ident():
            return False
        with self._order:
            self.catch_up(whole=False)
            asked = kernel is not None and kernel.ahead(who)  # of the later ones, too
            if not (self.late or asked):
                return False
            if not self.late:
                self._before = self._memory.pool.active_bytes
            self._held.append((command, kernel, who))
            self.late, self._device.catch_up = True, self.catch_up
        return True

    def catch_up(self, whole: bool = True) -> None:
        """Run what waits: all of it, or as far as programs are built, and as there is too much.

        Of programs that do not build the first one's error is raised, after all else has run.
        """
        if not self.late or self._running == get_ident():
            return
        failed: Exception | None = None
        with self._order:
            while self._held:
                command, kernel, who = self._held[0]
                if not (whole or self._full()) and kernel is not None and kernel.ahead(who):
                    return
                try:
                    if kernel is not None:
                        kernel.build(who)
                except BuildError as error:
                    failed = failed or error
                self._held.popleft()  # Ctrl-C, while a program was built, leaves it in place
                self._running = get_ident()
                try:
                    command()
                except Exception as error:
                    failed = failed or error
                finally:
                    self._running = 0
            self.late = False
        if failed is not None:
            raise failed

    def _full(self) -> bool:
        taken: int = self._memory.pool.active_bytes - self._before
        whole = self._device.cl_device.global_mem_size  # type: ignore[union-attr]
        return len(self._held) >= _MOST or taken > whole // _SHARE
