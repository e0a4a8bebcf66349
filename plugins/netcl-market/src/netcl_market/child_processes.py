"""Child processes that try what may crash or hang: none outlives the process that started it.

What they try is a stranger's, so that what they may use has a bound, too.
"""

from __future__ import annotations

import contextlib
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


#: Bytes of one file, open files, processes and threads of the user, and seconds of all cores.
_LIMITS: Final = {"FSIZE": 1 << 30, "NOFILE": 4096, "NPROC": 16384, "CPU": 4 * 3600, "CORE": 0}


def confine(parent: int) -> None:
    """Let this process end with its parent, and bound what it and its children may use (Unix).

    Memory: as much as the machine has. A limit that is lower already stays.
    """
    end_with(parent)
    if os.name != "posix":
        return
    import resource  # there is none elsewhere

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name, most in {**_LIMITS, "DATA": memory}.items():
        which = getattr(resource, f"RLIMIT_{name}", None)
        if which is not None:
            soft, hard = resource.getrlimit(which)
            known = [each for each in (soft, hard, most) if each != resource.RLIM_INFINITY]
            with contextlib.suppress(ValueError, OSError):  # the system knows better
                resource.setrlimit(which, (min(known), min(known)))
