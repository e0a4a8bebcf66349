"""Files that are written whole or not at all, whoever else writes or is killed meanwhile."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any, Final

#: The folders in which this process has looked for what killed ones left.
_swept: Final[set[Path]] = set()
#: Seconds after which what somebody writes aside is abandoned: a write takes a fraction of one.
_ABANDONED: Final = 60.0


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
