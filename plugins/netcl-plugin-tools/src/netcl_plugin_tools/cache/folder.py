"""What lies in the cache folder, and how it is removed beside processes that use it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, final

from netcl_plugin_kit.speed import records

from netcl_core import config
from netcl_core.cli import print_json, print_table
from netcl_core.inspect.data import programs_folder
from netcl_plugin_tools.tune import records as tuning

#: Folder -> what lies in it; those that nobody knows are listed without.
_KINDS: Final = {
    programs_folder().name: "built programs and compiled templates",
    tuning.folder().name: "records of netcl tune",
    records.folder().name: "times that netcl plugins bench and check measured",
    "plugins": "what is known of installed plugins, and which failed",
    "icd": "lists of OpenCL runtimes for the loader",
    "matrix": "environments of netcl matrix",
}
#: Seconds after which a file that is being written is abandoned.
_ABANDONED: Final = 60.0


@final
@dataclass(frozen=True, slots=True)
class CachePart:
    """One folder of the cache: its files, their size, and the most it may have; 0: no bound."""

    kind: str
    what: str
    entries: int
    size_bytes: int
    bound_bytes: int


def show(empty: Sequence[str], as_json: bool) -> int:
    """Print what lies in the cache folder, after making some of its folders empty."""
    root = config.cache_root()
    removed = {kind: _emptied(root / kind) for kind in empty}
    parts = list(_parts(root))
    if as_json:
        data = {"folder": str(root), "kept": config.get("cache"), "removed": removed}
        print_json({**data, "parts": [asdict(part) for part in parts]})
        return 0
    for kind, count in removed.items():
        print(f"{kind}: {count} removed")
    print(root)
    if not config.get("cache"):
        print("the setting cache is off: nothing is read from it or kept in it")
    rows = [
        (part.kind, str(part.entries), _mib(part.size_bytes), _bound(part), part.what)
        for part in parts
    ]
    total = ("", str(sum(p.entries for p in parts)), _mib(sum(p.size_bytes for p in parts)), "", "")
    print_table(("kind", "entries", "MiB", "of at most", "what"), [*rows, total], ("what",))
    return 0


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f}"


def _bound(part: CachePart) -> str:
    return _mib(part.bound_bytes) if part.bound_bytes else ""


def _parts(root: Path) -> Iterator[CachePart]:
    """The folders that are there, the known ones first."""
    there = {path.name for path in root.iterdir() if path.is_dir()} if root.is_dir() else set()
    for kind in (*_KINDS, *sorted(there - _KINDS.keys())):
        if kind in there:
            sizes = [size for _, size in _files(root / kind)]
            bound = config.get("cache-size-mb") << 20 if kind == programs_folder().name else 0
            yield CachePart(kind, _KINDS.get(kind, ""), len(sizes), sum(sizes), bound)


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """The files below a folder; those that somebody removes meanwhile are none."""
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink():
                yield path, path.stat().st_size
        except OSError:
            continue


def _emptied(folder: Path) -> int:
    """Remove the entries of a folder; how many.

    An entry is a whole file that is read at once and replaced at once, so that others see it or
    do not. What is just being written stays: it would be missed where it gets its name.
    """
    count = 0
    for path, _ in _files(folder):
        try:
            if path.suffix == ".tmp" and time.time() - path.stat().st_mtime < _ABANDONED:
                continue
            path.unlink()
        except OSError:  # another process was faster, or it is not ours
            continue
        count += 1
    return count
