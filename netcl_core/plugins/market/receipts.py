"""Remembers what was verified of a lock file, so that the next process reads and hashes nothing.

A receipt belongs to one content of a lock file. It holds what loading needs of the lock
(all but the digests of sources) and, for each RECORD that was hashed, its path, time,
size and digest: a RECORD whose time and size are the same is not read again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, final

from netcl_core import config
from netcl_core.plugins.market import notebook
from netcl_core.plugins.market.installed import Installed
from netcl_core.plugins.market.lock import SCHEMA as LOCK_SCHEMA
from netcl_core.plugins.market.lock import DevicePart, Lock, from_table, parse

_SCHEMA: Final = 1
_MOST: Final = 64
_Stamp = tuple[int, int, str]


@final
class Receipt:
    """What is remembered of one content of a lock file; `save` when all has been asked."""

    def __init__(self, data: bytes, folder: Path | None = None) -> None:
        name = hashlib.sha256(data).hexdigest()
        self._path = (config.lock_receipts() if folder is None else folder) / f"{name}.json"
        self._lock, self._stamps = notebook.load(self._path, _SCHEMA, _parts) or (None, {})
        self._changed = self._lock is None
        self._data = data

    def lock(self) -> Lock:
        """The lock, without the digests of sources; raises as `lock.parse` does."""
        if self._lock is None:
            whole = parse(self._data)
            parts = {key: DevicePart(part.choices) for key, part in whole.devices.items()}
            self._lock = Lock(whole.core, whole.plugins, parts)
        return self._lock

    def record_digest(self, one: Installed) -> str:
        """`Installed.record_digest`, remembered while the time and the size of RECORD stay."""
        path = one.record_path
        if path is None:
            return one.record_digest()
        stat = path.stat()
        known = self._stamps.get(str(path))
        if known is None or known[:2] != (stat.st_mtime_ns, stat.st_size):
            known = (stat.st_mtime_ns, stat.st_size, one.record_digest())
            self._stamps[str(path)] = known
            self._changed = True
        return known[2]

    def save(self) -> None:
        """Write what has changed, whole or not at all, and delete the oldest of too many."""
        if not self._changed or self._lock is None:
            return
        lock = {**asdict(self._lock), "schema": LOCK_SCHEMA}
        notebook.save(self._path, _SCHEMA, {"lock": lock, "records": self._stamps})
        with contextlib.suppress(OSError):
            receipts = self._path.parent.glob("*.json")
            kept = sorted(receipts, key=lambda path: path.stat().st_mtime_ns)
            for path in kept[:-_MOST]:
                path.unlink(missing_ok=True)
        self._changed = False


def _parts(table: Any) -> tuple[Lock | None, dict[str, _Stamp]]:
    return from_table(table["lock"]), _stamps(table["records"])


def _stamps(table: Mapping[str, Any]) -> dict[str, _Stamp]:
    found: dict[str, _Stamp] = {}
    for path, (time, size, digest) in table.items():
        if not (isinstance(time, int) and isinstance(size, int) and isinstance(digest, str)):
            raise TypeError("not a receipt of ours")
        found[path] = (time, size, digest)
    return found
