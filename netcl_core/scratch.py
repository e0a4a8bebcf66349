"""Scratch: a temporary folder that goes with its process, even with one that is killed.

Who makes one holds a lock in it until it is removed. A lock that nobody holds any more tells the
next process that the folder was left behind.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, Final, final

if sys.platform != "win32":
    import fcntl

_PREFIX: Final = "netcl-"
_LOCK: Final = ".held"


@final
class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary folder, as `tempfile` makes them; what killed processes left goes first.

    >>> with Scratch("example") as folder:
    ...     Path(folder).name.startswith("netcl-example-")
    True
    """

    def __init__(self, kind: str, place: Path | None = None) -> None:
        """`place`: the folder that it lies in; default: the system's for temporary files."""
        sweep(place or Path(tempfile.gettempdir()))
        super().__init__(prefix=f"{_PREFIX}{kind}-", dir=place)
        # It has its name once it is locked: others take one that is not for left behind.
        unnamed = Path(self.name, f"{_LOCK}.new")
        self._lock = _locked(unnamed, "x")
        if self._lock is not None:
            unnamed.rename(Path(self.name, _LOCK))

    def cleanup(self) -> None:
        """Remove it."""
        if self._lock is not None:
            self._lock.close()
        super().cleanup()


def sweep(place: Path) -> None:
    """Remove the folders of processes that were killed."""
    for path in place.glob(f"{_PREFIX}*/{_LOCK}"):
        lock = _locked(path, "a")
        if lock is not None:
            shutil.rmtree(path.parent, ignore_errors=True)
            lock.close()


def _locked(path: Path, mode: str) -> IO[str] | None:
    """The file at a path, locked; None if another process holds it, or the system has no locks."""
    if sys.platform == "win32":
        return None
    try:
        file = path.open(mode, encoding="utf-8")
    except OSError:  # another user's, or just removed
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file
