"""One pass over everything that is installed: who is there, and files of their metadata.

A folder on the import path is listed here; archives, eggs and finders of other kinds are
left to importlib-metadata, which takes longer to import than the whole pass. Nothing
depends on the order in which a file system lists a folder.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, final

from netcl_core.plugins.protocol import canonical

_METADATA: Final = (".dist-info", ".egg-info")


@final
class Folder:
    """A distribution whose metadata are a folder (or a file, `.egg-info`) beside its packages."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def name(self) -> str:
        """The name that the folder says."""
        return _named(os.path.basename(self._path))  # noqa: PTH119 - a Path takes ten times as long

    def read_text(self, name: str) -> str | None:
        """A file of the metadata; None if there is none."""
        try:
            with open(self.place(name), encoding="utf-8", opener=_regular) as file:
                return file.read()
        except OSError:
            return None

    def place(self, name: str) -> str:
        """The path of a file of the metadata."""
        return f"{self._path}/{name}"

    def locate_file(self, path: str) -> str:
        """Where a file lies that RECORD lists."""
        return f"{os.path.dirname(self._path) or os.curdir}/{path}"  # noqa: PTH120 - as above


def _regular(path: str, flags: int) -> int:
    """Open a file; raises OSError for what is none, such as a FIFO, which nobody may write to."""
    opened = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(opened).st_mode):
        return opened
    os.close(opened)
    raise OSError(f"{path} is no regular file")


@final
class Scan:
    """The distributions of one moment, in the order of the import path."""

    def __init__(self) -> None:
        self.path = tuple(sys.path)
        self.handles = [*_of_other_finders(), *_on(self.path)]
        self._copies: dict[str, list[Any]] = {}
        self._versions: dict[str, str | None] = {}
        for handle in self.handles:
            name = handle.name if isinstance(handle, Folder) else _name(handle)
            self._copies.setdefault(name, []).append(handle)

    def find(self, name: str) -> Any:
        """The first distribution of a name that has metadata, else the first; None without any."""
        copies = self._copies.get(canonical(name), ())
        if len(copies) < 2:
            return copies[0] if copies else None
        return next(filter(headers, copies), copies[0])

    def version(self, name: str) -> str | None:
        """The version of the distribution that `find` finds; None if there is none."""
        if name not in self._versions:
            handle = self.find(name)
            said = () if handle is None else headers(handle).get("Version", ())
            self._versions[name] = said[0] if said else None
        return self._versions[name]


_latest: Final[list[Scan]] = []


def fresh() -> Scan:
    """A new scan, which `latest` returns from now on."""
    _latest[:] = [Scan()]
    return _latest[0]


def latest() -> Scan:
    """The last scan, while the import path is the same; else a new one."""
    if _latest and _latest[0].path == tuple(sys.path):
        return _latest[0]
    return fresh()


# -- where distributions are -----------------------------------------------------------


def _on(path: Iterable[Any]) -> Iterator[Any]:
    for place in path:
        if not isinstance(place, str):
            continue  # the import system passes over it as well
        if place.lower().endswith(".egg") or os.path.isfile(place):  # noqa: PTH113 - as above
            yield from _library().MetadataPathFinder.find_distributions(_context([place]))
            continue
        try:
            names = sorted(os.listdir(place or os.curdir))  # noqa: PTH208 - as above
        except OSError:  # there is no such folder, or it is not for us
            continue
        for name in names:
            if name.lower().endswith(_METADATA):
                yield Folder(os.path.join(place, name))  # noqa: PTH118 - as above


def _of_other_finders() -> Iterator[Any]:
    """What finders find that are neither Python's own nor importlib-metadata's."""
    for finder in sys.meta_path:
        kind = finder if isinstance(finder, type) else type(finder)
        known = kind.__module__.partition(".")[0] in {"_frozen_importlib_external", _LIBRARY}
        if not known and hasattr(finder, "find_distributions"):
            yield from finder.find_distributions(_context(sys.path))


_LIBRARY: Final = "importlib_metadata"


def _library() -> Any:
    import importlib_metadata

    return importlib_metadata


def _context(path: Iterable[str]) -> Any:
    return _library().DistributionFinder.Context(path=list(path))


# -- what is in one --------------------------------------------------------------------


def location(handle: Any) -> str:
    """The folder of a distribution's metadata, or what stands for it."""
    return str(getattr(handle, "_path", None) or handle.locate_file(""))


def own_files(handle: Any) -> list[str]:
    """The files of a distribution that say what it is and brings, named as in RECORD."""
    if not isinstance(handle, Folder):
        return []
    folder = os.path.basename(location(handle))  # noqa: PTH119 - as above
    names = ("METADATA", "entry_points.txt")
    return [f"{folder}/{name}" for name in names if os.path.isfile(handle.place(name))]  # noqa: PTH113


def _name(handle: Any) -> str:
    """The name that the folder of the metadata says, as importlib-metadata looks for it."""
    parts = re.split(r"[\\/]", location(handle).rstrip("\\/"))
    if len(parts) > 1 and parts[-1].lower() == "egg-info":
        parts.pop()
    return _named(parts[-1])


def _named(entry: str) -> str:
    return canonical(entry.rpartition(".")[0].partition("-")[0])


def read(handle: Any, name: str) -> str | None:
    """A file of the metadata; None if it is missing or is no text."""
    try:
        text: str | None = handle.read_text(name)
    except (OSError, UnicodeDecodeError):
        return None
    return text


def headers(handle: Any) -> Mapping[str, list[str]]:
    """The fields of METADATA, without the long description below them."""
    text = read(handle, "METADATA") or read(handle, "PKG-INFO") or ""
    fields: dict[str, list[str]] = {}
    for line in text.partition("\n\n")[0].splitlines():
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            fields.setdefault(name, []).append(value.strip())
    return fields
