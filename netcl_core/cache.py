"""What is kept because making it takes long: in memory by a Memo, on disk by `read` and `write`.

On disk are built programs and compiled templates. An entry's name says what it was made of, and
each begins with the sha256 of its name and content: one that was damaged, cut short or swapped is
none. The folder has a bound (`cache-size-mb`); what was used longest ago leaves first. With the
setting `cache` off there is nothing kept there.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import threading
import warnings
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, final

from netcl_core import config
from netcl_core.errors import SlowWarning, message
from netcl_core.files import keep_whole

# -- in memory -----------------------------------------------------------------------------

Key = TypeVar("Key")
Value = TypeVar("Value")


@final
class Memo(Generic[Key, Value]):
    """At most `maxsize` values by key; the least recently used one goes first.

    Threads may share it. Two that miss the same key at once both make a value, and
    `put` gives both of them the first one. A hit is one look-up: it only notes the time.
    """

    __slots__ = ("_heap", "_lock", "_ticks", "_values", "maxsize")

    def __init__(self, maxsize: int) -> None:
        self.maxsize = maxsize
        self._values: dict[Key, list[Any]] = {}  # the value, and when it was used last
        self._heap: list[tuple[int, Any, Any]] = []  # by a use that may be long past
        self._ticks = itertools.count()
        self._lock = threading.RLock()  # comparing keys may run Python, which may come back here

    def get(self, key: Key) -> Value | None:
        """The value of a key, which is now the most recently used; None: there is none."""
        entry = self._values.get(key)
        if entry is None:
            return None
        entry[1] = next(self._ticks)
        return entry[0]  # type: ignore[no-any-return]  # a Value

    def put(self, key: Key, value: Value) -> Value:
        """Keep a value under a new key; what is kept there already stays, and is returned."""
        with self._lock:
            used = next(self._ticks)
            entry = [value, used]
            kept = self._values.setdefault(key, entry)
            if kept is entry:
                entered: tuple[int, Any, Any] = (used, key, entry)
                heappush(self._heap, entered)
                while len(self._values) > self.maxsize:
                    self._drop_oldest()
            return kept[0]  # type: ignore[no-any-return]  # a Value

    def _drop_oldest(self) -> None:
        used, key, entered = self._heap[0]
        kept = self._values.get(key)
        if kept is None or kept is not entered:  # dropped before
            heappop(self._heap)
        elif kept[1] != used:  # used since
            heapreplace(self._heap, (kept[1], key, kept))
        else:
            heappop(self._heap)
            del self._values[key]

    def values(self) -> list[Value]:
        """All values, in the order in which they came."""
        with self._lock:
            return [value for value, _ in self._values.values()]

    def drop(self, key: Key) -> None:
        """Forget the value of a key, if there is one."""
        with self._lock:
            if self._values.pop(key, None) and len(self._heap) > 2 * self.maxsize:
                self._heap = [
                    entry for entry in self._heap if self._values.get(entry[1]) is entry[2]
                ]
                heapify(self._heap)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._values.clear()
            self._heap.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Key]:
        with self._lock:
            return iter(list(self._values))


# -- on disk -------------------------------------------------------------------------------

#: The length of what an entry begins with.
_SEAL: Final = 32

#: The bytes that this process may still write before it looks at the folder's size again.
_room: dict[Path, int] = {}


def folder() -> Path:
    """The folder of the entries (it need not exist yet)."""
    return config.cache_root() / "programs"


def digest(*texts: str) -> str:
    """A name for an entry: the sha256 of texts, told apart by zero bytes, in hexadecimal."""
    return hashlib.sha256(b"".join(text.encode() + b"\0" for text in texts)).hexdigest()


def read(name: str) -> bytes | None:
    """The entry of a name, now the most recently used; None if there is no whole one."""
    if not config.get("cache"):
        return None
    path = _path(name)
    try:
        entry = path.read_bytes()
        os.utime(path)
    except OSError:  # not there, or not ours: it is made anew
        return None
    seal, content = entry[:_SEAL], entry[_SEAL:]
    return content if seal == _sealed(name, content) else None


def write(name: str, content: bytes) -> None:
    """Keep an entry; a disk that is full or read-only only costs the next process the making."""
    if not config.get("cache"):
        return
    path = _path(name)
    entry = _sealed(name, content) + content
    try:
        keep_whole(path, entry)
        _room[path.parent] = _room.get(path.parent, 0) - len(entry)
        if _room[path.parent] < 0:
            _room[path.parent] = prune(path.parent)
    except OSError as error:
        _tell(path.parent, error)


def _tell(folder: Path, error: OSError) -> None:
    """Say once that a folder takes nothing, where that will not pass by itself."""
    if error.errno in _LASTING and folder not in _told:
        _told.add(folder)
        text = f"{folder} cannot be written ({error.strerror}), so kernels are built anew"
        remedy = "Name one that can be: NETCL_CACHE_DIR; NETCL_CACHE=0 says nothing"
        warnings.warn(message("cache", text, "", remedy), SlowWarning, stacklevel=2)


#: Errors of a folder that nobody will be able to write to, and folders of which that was said.
_LASTING: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOENT)
_told: Final[set[Path]] = set()


def _sealed(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest()


def _path(name: str) -> Path:
    return folder() / f"{name}.bin"


def prune(place: Path) -> int:
    """Bring a folder below its bound; returns the bytes that may be written before the next time.

    That is part of the room that is left, since other processes write there too. A folder that
    was above its bound loses a quarter of it: full as it is, not every write has to look again.
    """
    bound = config.get("cache-size-mb") << 20
    entries = sorted(_entries(place))
    total = sum(size for _, size, _ in entries)
    kept = bound if total <= bound else bound - bound // 4
    for _, size, path in entries:
        if total <= kept:
            break
        path.unlink(missing_ok=True)
        total -= size
    return int(max(bound - total, bound // 8) // 8)


def _entries(place: Path) -> Iterator[tuple[float, int, Path]]:
    """When each entry was used last, its size and its path.

    So too what is being written: what a process left behind when it ended becomes the oldest.
    """
    with os.scandir(place) as files:
        for entry in files:
            if not entry.name.endswith((".bin", ".tmp")):
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:  # another process removed it
                continue
            yield status.st_mtime, status.st_size, Path(entry.path)
