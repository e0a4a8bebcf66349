"""Writes the files that commands are told to: whole or not at all, and named where that fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from netcl_core.errors import ArgumentError, message
from netcl_core.files import write_whole


def write_text(who: str, path: Path, text: str | Callable[[], str], option: str = "") -> None:
    """Write a file for a command; raises ArgumentError where it cannot, and leaves it as it was.

    Args:
        who: The command.
        path: The file.
        text: What stands in it, or a function that makes it and may need room for files, too.
        option: The one that named the file.
    """
    try:
        write_whole(path, (text() if callable(text) else text).encode("utf-8"))
    except OSError as error:
        given = f"{option} {path}: {error.strerror or type(error).__name__}"
        raise ArgumentError(message(who, given.lstrip(), "a file to write")) from error
