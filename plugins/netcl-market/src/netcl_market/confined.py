"""Sets the limits of a child process, and becomes the command that it is given.

    python -I -S confined.py PARENT COMMAND...

It is run as a file, so that nothing that is installed runs before the limits hold. It ends with
its parent, however that ends, where the system can (Linux): a parent that is killed cleans nothing
up, and what it tried may be an endless loop.
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
#: Bytes of one file, open files, processes and threads of the user (Linux counts none of root's),
#: and seconds of all cores.
_LIMITS: Final = {"FSIZE": 1 << 30, "NOFILE": 4096, "NPROC": 16384, "CPU": 4 * 3600, "CORE": 0}
#: The part of the machine's memory that one process may have.
_MEMORY: Final = 0.75


def end_with(parent: int) -> None:
    """Let this process end when its parent does; at once if that has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def limit() -> None:
    """Bound what this process and its children may use; a limit that is lower already stays."""
    import resource  # there is none but on Unix

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name, most in {**_LIMITS, "DATA": int(_MEMORY * memory)}.items():
        which = getattr(resource, f"RLIMIT_{name}", None)
        if which is not None:
            soft, hard = resource.getrlimit(which)
            known = [each for each in (soft, hard, most) if each != resource.RLIM_INFINITY]
            with contextlib.suppress(ValueError, OSError):  # the system knows better
                resource.setrlimit(which, (min(known), min(known)))


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    limit()
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:  # as a shell says it
        print(f"{sys.argv[2]}: {error.strerror}", file=sys.stderr)
        os._exit(127)
