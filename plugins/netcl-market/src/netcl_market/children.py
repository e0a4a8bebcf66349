"""Child processes that try what may crash or hang: none outlives the process that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

#: `prctl`'s option that asks for a signal when the parent ends.
_PR_SET_PDEATHSIG: Final = 1


def end_with(parent: int) -> None:
    """Let this process end when its parent does, however that ends, where the system can (Linux).

    A parent that is killed cleans nothing up, and what it tried may be an endless loop.

    Args:
        parent: The process id that the parent gave; if it has ended already, this process ends.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.name == "posix" and os.getppid() != parent:
        os._exit(1)
