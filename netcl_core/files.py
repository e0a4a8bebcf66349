"""Files that are written whole or not at all, and temporary folders that go with their process.

Whoever makes such a folder holds a lock in it until it is removed. A lock that nobody holds any
more tells the next process that the folder was left behind.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import IO, Any, Final, final

if sys.platform != "win32":
    import fcntl

#: The folders in which this process has looked for what killed ones left.
_swept: Final[set[Path]] = set()
#: Seconds after which what somebody writes aside is abandoned: a write takes a fraction of one.
_ABANDONED: Final = 60.0
#: The names of temporary folders begin so, and the lock in each is called so.
_PREFIX: Final = "netcl-"
_LOCK: Final = ".held"


def _sweep(folder: Path) -> None:
    """Remove the files that processes have not finished before they were killed."""
    for path in folder.glob("*.tmp"):
        with suppress(OSError):  # another process removed it, or it is not ours
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()


def keep_whole(path: Path, data: bytes) -> None:
    """Write a file of the cache folder as `write_whole` does, and remove what others left there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent not in _swept:
        _swept.add(path.parent)
        _sweep(path.parent)
    write_whole(path, data)


def write_whole(path: Path, *parts: Any, lasting: bool = False) -> None:
    """Write a file whole or not at all, whoever else writes it; an OSError names the file.

    A file that is replaced keeps its permissions. With `lasting` it is on the disk at the end,
    whatever happens to the machine then.
    """
    target = path.resolve()
    aside = target.with_name(f"{target.name}.{os.getpid()}-{get_ident()}.tmp")
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as pipe:  # such as /dev/stdout
                pipe.writelines(parts)
            return
        with aside.open("wb") as file:
            with suppress(FileNotFoundError):
                aside.chmod(stat.S_IMODE(target.stat().st_mode))
            file.writelines(parts)
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(target)
        if lasting and os.name == "posix":
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


@final
class Scratch(tempfile.TemporaryDirectory[str]):
    """A temporary folder, as `tempfile` makes them; what killed processes left goes first.

    >>> with Scratch("example") as folder:
    ...     Path(folder).name.startswith("netcl-example-")
    True
    """

    def __init__(self, kind: str, place: Path | None = None) -> None:
        """`place`: the folder that it lies in; default: the system's for temporary files."""
        sweep_folders(place or Path(tempfile.gettempdir()))
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


def sweep_folders(place: Path) -> None:
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
