"""The lock file `netcl.lock`: where it is; a market reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from netcl_core import config

LOCK_FILE: Final = "netcl.lock"


def lock_file() -> Path | None:
    """The lock file that holds for the working directory; None if there is none.

    That of the setting `lock`, else the nearest `netcl.lock` above the working directory.
    A file that the setting names need not exist.
    """
    given: str | None = config.get("lock")
    if given is None:
        return None
    return config.base_of("lock") / given if given else nearest_lock_file()


def nearest_lock_file() -> Path | None:
    """The nearest `netcl.lock` in or above the working directory, whatever the setting says."""
    here = config.working_folder()
    places = (folder / LOCK_FILE for folder in (here, *here.parents))
    return next((path for path in places if path.is_file()), None)
