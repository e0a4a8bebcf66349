"""The digest of all files of a distribution, with receipts of those that have not changed.

A receipt holds while size, times (that of the inode too) and inode of a file are the same. A
file that was changed within the last two seconds gets none: another change of the same size
could fall into the same tick of the file system's clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from netcl_market import journal
from netcl_market.installed import Installed, Places
from netcl_market.sealed import Sealed

_SCHEMA: Final = 2
_SETTLED_NS: Final = 2_000_000_000
MISSING: Final = "missing"
#: How names are written that look like another row.
_PLAIN: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t"})
#: Size, times in nanoseconds, inode.
_Stamp: TypeAlias = tuple[int, int, int, int]
#: The digest of all, and the stamp and digest of each file by its path.
_Receipt: TypeAlias = tuple[str, dict[str, tuple[_Stamp, str]]]


@final
class Receipts(journal.Rows[_Receipt]):
    """What earlier processes have hashed; `save` it at last."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA, "distributions", _receipt)
        #: The files of each distribution that was asked for.
        self.asked: list[tuple[Places, dict[str, str], str]] = []

    def digest_of(self, one: Installed, places: Places) -> str:
        """The digest of a distribution's files; those that have not changed are not read."""
        key = one.source.location if one.source is not None else one.name
        known = self._kept.get(key, ("", {}))
        files = dict(places.all())
        self.asked.append((places, files, key))
        stamps = {name: _stamp(path) for name, path in files.items()}
        rows = known[1]
        if stamps == {name: row[0] for name, row in rows.items()}:
            return known[0]
        settled = time.time_ns() - _SETTLED_NS
        rows_read: dict[str, tuple[_Stamp, str]] = {}
        for name, stamp in stamps.items():
            row = rows.get(name)
            if row is None or row[0] != stamp:
                row = (stamp if max(stamp[1:3]) < settled else _NO_STAMP, digest(files[name]))
            rows_read[name] = row
        self._kept[key] = whole((name, row[1]) for name, row in rows_read.items()), rows_read
        self._changed = True
        return self._kept[key][0]

    def sealed(self) -> Sealed:
        """What reads the files of all distributions that were asked for as they were then."""
        sealing = Sealed()
        for places, files, key in self.asked:
            rows = self._kept[key][1]
            sealing.add(places, [(name, path, rows[name][1]) for name, path in files.items()])
        return sealing


def files_in(places: Places) -> dict[str, str]:
    """The digest of each file of a distribution, read now; "missing" of one that is not there."""
    return {name: digest(path) for name, path in places.all()}


def whole(files: Iterable[tuple[str, str]]) -> str:
    """One digest of all: the same wherever and in whichever order they are installed."""
    import hashlib  # brings OpenSSL, which a load from receipts does without

    text = "".join(f"{name.translate(_PLAIN)}\t{content}\n" for name, content in sorted(files))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def digest(path: str) -> str:
    """The sha256 of a file; of a link to a folder, that of where it leads."""
    import hashlib  # as above

    try:
        file = Path(path)
        if file.is_dir() and file.is_symlink():
            return hashlib.sha256(os.fsencode(file.readlink())).hexdigest()
        if not file.is_file():
            return MISSING  # a FIFO or a device would be read for ever
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return MISSING


_NO_STAMP: Final[_Stamp] = (-1, -1, -1, -1)
_ABSENT: Final[_Stamp] = (-2, 0, 0, 0)


def _stamp(path: str) -> _Stamp:
    try:
        stat = os.stat(path)  # noqa: PTH116 - a Path takes ten times as long
    except OSError:
        return _ABSENT
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _receipt(row: Any) -> _Receipt:
    text, files = row
    if not isinstance(text, str):
        raise TypeError("no receipt of ours")
    return text, {name: (tuple(stamp), str(each)) for name, (stamp, each) in files.items()}
