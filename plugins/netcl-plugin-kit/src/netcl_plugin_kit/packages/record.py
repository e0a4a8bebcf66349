"""RECORD: the list of a wheel's files, and the digests that stand in it."""

from __future__ import annotations

import base64
import csv
import hashlib
from typing import IO, Final

_CHUNK: Final = 1 << 20
#: What RECORD does not list, or not with a digest: itself and its signatures.
UNLISTED: Final = frozenset({"RECORD", "RECORD.jws", "RECORD.p7s"})


def recorded(text: str) -> dict[str, str]:
    """Path -> digest (`sha256=...`, or nothing) of a RECORD; raises ValueError for no such list."""
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:  # a field that is too long, a NUL
        raise ValueError(str(error)) from error
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def record_digest(file: IO[bytes]) -> str:
    """A file's digest as in RECORD: urlsafe base64 without the signs that fill it up."""
    sha = hashlib.sha256()
    while piece := file.read(_CHUNK):
        sha.update(piece)
    return f"sha256={base64.urlsafe_b64encode(sha.digest()).rstrip(b'=').decode()}"
